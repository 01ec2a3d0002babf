exg help run plan; exg --version run
