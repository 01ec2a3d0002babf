/* scan.c - parts of a text, one after the other. */
#include "libexport/base/scan.h"

bool exg_scan_take_word(exg_scan *scan, const char *word)
{
    exg_scan ahead = *scan;
    bool found = exg_scan_take(&ahead, word) && !exg_is_word(*ahead.at);

    scan->at = found ? ahead.at : scan->at;
    return found;
}

size_t exg_scan_word(exg_scan *scan, const char **word)
{
    exg_scan_next(scan);
    *word = scan->at;
    while (exg_is_word(*scan->at)) {
        scan->at++;
    }
    return (size_t)(scan->at - *word);
}

size_t exg_scan_digits(exg_scan *scan)
{
    size_t length;

    exg_scan_next(scan);
    length = strspn(scan->at, "0123456789");
    scan->at += length;
    return length;
}

bool exg_scan_quoted(exg_scan *scan, const char **text, size_t *length)
{
    char quote = exg_scan_next(scan);

    if (quote != '\'' && quote != '"') {
        return false;
    }
    *length = strcspn(scan->at + 1, quote == '"' ? "\"\\" : "'\\");
    if (scan->at[*length + 1] != quote) {
        return false;
    }
    *text = scan->at + 1;
    scan->at += *length + 2;
    return true;
}
