/* exg_folder.h - a folder of the test's own, and files in it. */
#ifndef EXG_TESTS_EXPORT_EXG_FOLDER_H
#define EXG_TESTS_EXPORT_EXG_FOLDER_H

#include <exg/formats.h>
#include <stddef.h>
#include <stdint.h>

int make_folder(void **state);
int remove_folder(void **state);
int empty_folder(void); /* gives the count of files removed */

/* The path of `name` in the folder; good for the next seven calls. */
const char *in_folder(const char *name);
uint64_t file_bytes(const char *name);
uint8_t *read_path(const char *path, size_t *length); /* malloc'ed */
uint8_t *read_file(const char *name, size_t *length); /* likewise */
void write_file(const char *name, const void *data, size_t length);
void assert_paths_equal(const char *a, const char *b);
void assert_files_equal(const char *a, const char *b);

exg_program *open_program(const char *path); /* fails the test when it does not open */
void save_program(const exg_program *program, const char *name, const exg_save_options *options);

/* Replaces the text `from` in the metadata of a file by one of the same length, and
 * makes checksum and digest true again. */
void replace_location(uint8_t *data, size_t length, const char *from, const char *to);

#endif
