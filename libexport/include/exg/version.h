/* version.h - which exg this is: of the headers that a program is compiled with, and of the
 * library that it runs with.
 *
 * The numbers are those of a release. EXG_ABI is the number in the libraries' SONAME: it goes up
 * when anything in tests/abi changes that a compiled program would notice (a function gone, a
 * number or the layout of a struct changed), so that such a program does not start with the wrong
 * library.
 */
#ifndef EXG_VERSION_H
#define EXG_VERSION_H

#define EXG_VERSION_MAJOR 0
#define EXG_VERSION_MINOR 1
#define EXG_VERSION_PATCH 0
#define EXG_ABI           1

/* One number, to compare: 1002003 is 1.2.3. */
#define EXG_VERSION_NUMBER                                                                         \
    (EXG_VERSION_MAJOR * 1000000 + EXG_VERSION_MINOR * 1000 + EXG_VERSION_PATCH)

#ifdef __cplusplus
extern "C" {
#endif

/* The library's: "0.1.0", and as EXG_VERSION_NUMBER. Where the number is less than that of the
 * headers, what was added since is not there. From any thread. */
const char *exg_version(void);
int exg_version_number(void);

#ifdef __cplusplus
}
#endif

#endif
