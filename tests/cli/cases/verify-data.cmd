exg verify fixtures/views.pt2 --data
