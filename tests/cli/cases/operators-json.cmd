exg operators aten._softmax.default --json
