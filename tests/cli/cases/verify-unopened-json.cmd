exg verify fixtures/bad/ZIP-METHOD.pt2 --json 2> /dev/null
