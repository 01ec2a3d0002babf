exg explain --list | grep -E "^(VAL-001|KRN-001|IO-OPEN) "; exg explain WGT-LOC; exg explain wgt-loc
