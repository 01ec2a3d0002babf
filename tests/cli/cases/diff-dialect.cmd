exg diff fixtures/convbn.pt2 fixtures/convbn.core.pt2 --structure
