exg explain --list --markdown | diff - schema/rules.md && echo up to date
