# embed.cmake - a text file as a C array: cmake -DIN=FILE -DOUT=FILE.c -DNAME=symbol -P embed.cmake
file(READ ${IN} bytes HEX)
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${OUT} "extern const char ${NAME}[];\nconst char ${NAME}[] = {\n${bytes}0};\n")
