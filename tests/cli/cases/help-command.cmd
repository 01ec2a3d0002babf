exg help convert | diff - tests/cli/cases/help-convert.out && exg convert -h | diff - tests/cli/cases/help-convert.out && exg -h | diff - tests/cli/cases/help.out
