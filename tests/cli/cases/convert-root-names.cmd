for n in . .. "$(printf 'a\\\377b')" "$(printf '%0251d' 0)"; do exg convert fixtures/mlp.pt2 "$T/$n.pt2" && exg inspect "$T/$n.pt2" --digest xxh3; done; rm $T/..pt2 $T/...pt2 $T/*
