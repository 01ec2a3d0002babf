# PyTorch, of the modules in fixtures/programs: sum(p.numel() for p in m.parameters()) and buffers():
# Tied 36 0, its encode and decode 36 0 each; ConvBN 285 17, conv 224 0, norm 16 17, head 45 0;
# Constants 1 3 (one buffer, not persistent); the language model 344704 8192, head and embedding tied.
for f in tied convbn constants lm.core.static; do exg inspect fixtures/$f.pt2 --tree --depth 1; exg inspect fixtures/$f.pt2 | grep "parameters\{0,1\}, "; done; for f in tied convbn; do exg convert fixtures/$f.pt2 $T/$f.exg; exg inspect $T/$f.exg | grep "parameters\{0,1\}, "; rm $T/$f.exg; done
