exg explain fixtures/inplace.pt2 --stage functionalize | grep "aten[.][a-z]*_[.]"; [ $? -eq 1 ] && echo "nothing is written in place"
