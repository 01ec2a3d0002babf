gzip -c fixtures/weights/little.gguf | exg verify - && printf '' | exg verify -
