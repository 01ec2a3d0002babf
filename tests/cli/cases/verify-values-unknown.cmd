exg verify --values fixtures/weights/external.onnx.data
