/* scan.h - a text read from left to right, part by part.
 *
 * Each function looks behind what may stand between two parts; one that finds nothing of
 * what it is asked for leaves `at` there.
 */
#ifndef EXG_LIBEXPORT_BASE_SCAN_H
#define EXG_LIBEXPORT_BASE_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

typedef struct exg_scan {
    const char *at;     /* what is left; it ends in NUL */
    const char *spaces; /* what may stand between two parts */
} exg_scan;

#define EXG_SCAN_BLANKS " "       /* of texts of one line */
#define EXG_SCAN_SPACES " \t\n\r" /* JSON's */

/* A letter, digit or underscore? */
static inline bool exg_is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* The character that comes next, not taken; NUL at the end. */
static inline char exg_scan_next(exg_scan *scan)
{
    /* nothing above a blank is space */
    while (*scan->at <= ' ' && *scan->at != '\0' && strchr(scan->spaces, *scan->at) != NULL) {
        scan->at++;
    }
    return *scan->at;
}

/* Takes `token` if it comes next. */
static inline bool exg_scan_take(exg_scan *scan, const char *token)
{
    size_t length = 1;

    if (exg_scan_next(scan) != token[0]) {
        return false;
    }
    while (token[length] != '\0' && scan->at[length] == token[length]) {
        length++;
    }
    scan->at += token[length] == '\0' ? length : 0;
    return token[length] == '\0';
}

/* Takes `word` if it comes next as a whole word. */
bool exg_scan_take_word(exg_scan *scan, const char *word);

/* Takes letters, digits and underscores; the length, 0 for none. */
size_t exg_scan_word(exg_scan *scan, const char **word);

/* Takes decimal digits; their number. */
size_t exg_scan_digits(exg_scan *scan);

/* Takes 'text' or "text" without a backslash in it; false: there is none. */
bool exg_scan_quoted(exg_scan *scan, const char **text, size_t *length);

#endif
