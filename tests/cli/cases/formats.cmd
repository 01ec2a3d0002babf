exg formats
