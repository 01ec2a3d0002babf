exg "$(printf 'no\033[31msuch')"
