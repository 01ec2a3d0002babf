cp fixtures/weights/external.onnx $T && exg verify $T/external.onnx 2> /dev/null | head -n 2; rm $T/*
