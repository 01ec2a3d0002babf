exg verify tests/cli/run.sh
