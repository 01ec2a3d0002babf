# libexport's tests
