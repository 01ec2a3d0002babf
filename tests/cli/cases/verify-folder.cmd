exg verify fixtures
