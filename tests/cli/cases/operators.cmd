exg operators aten.linear. && exg operators 'aten.add_*' && exg operators aten.bitwise_and.Tensor
