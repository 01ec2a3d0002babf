/* name_pattern.h - patterns of names that files of DeepSpeed hold: regular expressions of Python,
 * as re.match() takes them, of which those are known that name tensors.
 *
 * They come from a file, so no library sees them: time is the pattern's length times the name's.
 */
#ifndef EXG_LIBEXPORT_FORMATS_PT2_NAME_PATTERN_H
#define EXG_LIBEXPORT_FORMATS_PT2_NAME_PATTERN_H

#include <stdbool.h>

/* Is the pattern made of characters, ".", "\d", "\w", escaped characters, each with "*", "+" or "?"
 * behind it or not, "^" in front and "$" at the end, and not too long? */
bool exg_name_pattern_is_known(const char *pattern);

/* Does one that is known fit the beginning of the name, or all of it where it ends in "$"? */
bool exg_name_pattern_fits(const char *pattern, const char *name);

#endif
