/* storage.h - what the files of this room and the formats share about storages. */
#ifndef EXG_LIBEXPORT_WEIGHTS_STORAGE_H
#define EXG_LIBEXPORT_WEIGHTS_STORAGE_H

#include "libexport/base/files.h"
#include "libexport/base/pool.h"
#include "libexport/weights/frames.h"

#include <exg/weights.h>

struct exg_hasher;

static inline exg_byte_order exg_host_byte_order(void)
{
    return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? EXG_LITTLE_ENDIAN : EXG_BIG_ENDIAN;
}

/* One more in the list; name and detail are copied. NO_MEMORY. */
exg_status exg_mismatches_add(exg_mismatches *list, exg_mismatch_kind kind, const char *name,
                              const char *detail, exg_error *err);

/* The plain bytes where they are, in the byte order of the storage; NULL with OK when they are not
 * in memory as they are (frames). */
exg_status exg_storage_plain_bytes(exg_weights *weights, uint32_t storage, const uint8_t **data,
                                   exg_error *err);

/* exg_storage_read() with what inflating needs kept between calls (NULL: for this one). */
exg_status exg_storage_read_with(exg_weights *weights, uint32_t storage, uint64_t offset,
                                 uint64_t length, void *out, exg_frame_reader *reader,
                                 exg_error *err);

/* Opens the file of an external storage, or of frames in one, if it is not open. IO, MALFORMED. */
exg_status exg_storage_locate(exg_weights *weights, uint32_t storage, exg_error *err);

/* exg_storage_map() without looking at the checksum. */
exg_status exg_storage_host_bytes(exg_weights *weights, uint32_t storage, const uint8_t **data,
                                  exg_error *err);

/* Calls take() with the plain bytes of a storage, 1 MiB at a time and in order, while the
 * pool inflates those that follow, and compares the checksum when all were taken. What was
 * taken of a mapped file is given back to the system, so that memory does not grow with the
 * file. `pool` may be NULL. MALFORMED (ARC-012). */
typedef exg_status exg_take_fn(void *user, const uint8_t *bytes, uint64_t length, exg_error *err);
exg_status exg_storage_stream(exg_weights *weights, uint32_t storage, exg_pool *pool,
                              exg_take_fn *take, void *user, exg_error *err);

/* One more checksum of its bytes, copied. NO_MEMORY. */
exg_status exg_storage_add_checksum(exg_weights *weights, uint32_t storage,
                                    const exg_checksum *checksum, exg_error *err);

/* Compares the checksum of a storage before the first of its bytes goes out, unless the
 * weights are trusted: once, and who comes meanwhile waits.
 * Frames have theirs compared whenever they are read. MALFORMED (ARC-012). */
exg_status exg_storage_check_once(exg_weights *weights, uint32_t storage, exg_pool *pool,
                                  exg_error *err);

/* true: the caller is to compare, and to tell with exg_storage_check_end() whether it held. */
bool exg_storage_check_begin(exg_weights *weights, uint32_t storage);
void exg_storage_check_end(exg_weights *weights, uint32_t storage, bool held);

/* From now on exg_weights_skip() fails. */
void exg_weights_refuse_skipping(exg_weights *weights);

/* From now on what is read is not compared; what is written from it is. */
void exg_weights_trust(exg_weights *weights);

/* From now on a page of it that is missing is brought alone, not with those around it. */
void exg_storage_read_apart(exg_weights *weights, uint32_t storage);

/* Of a mapped file the pages that hold the plain bytes [first, end), and no others, are on their
 * way. */
void exg_storage_read_ahead(exg_weights *weights, uint32_t storage, uint64_t first, uint64_t end);

/* Brings the pages that hold the plain bytes [first, end) of a mapped file in at once:
 * they are read next. For a mebibyte or so, half the cost of a fault a page. */
void exg_storage_expect(exg_weights *weights, uint32_t storage, uint64_t first, uint64_t end);

/* Gives the pages that hold the plain bytes [first, end) of a mapped file back to the
 * system; they come again when they are read. `first` is a multiple of 1 MiB. */
void exg_storage_forget(exg_weights *weights, uint32_t storage, uint64_t first, uint64_t end);

/* A deep copy; NULL: out of memory. */
exg_tensor_meta *exg_tensor_meta_copy(exg_arena *arena, const exg_tensor_meta *meta);

/* Does a storage hold more than one of the weights? */
exg_status exg_weights_share(const exg_weights *weights, exg_arena *arena, bool *shared,
                             exg_error *err);

/* Is it a tensor of floating-point elements as they are, not encoded? */
bool exg_weight_is_of_floats(const exg_weight *weight);

/* Which bytes of which storage a static view is, as which elements: weights that agree in this text
 * are tied. In the arena; NULL: out of memory. */
const char *exg_weight_view_key(const exg_weight *weight, exg_arena *arena);

/* The bytes [first, end) of its storage that a static view reaches over; an empty one none. */
exg_status exg_tensor_meta_reach(const exg_tensor_meta *meta, uint64_t *first, uint64_t *end,
                                 exg_error *err);

/* Have two static views the same sizes? */
bool exg_tensor_meta_same_shape(const exg_tensor_meta *a, const exg_tensor_meta *b);

/* Do two tensors of one shape and dtype hold the same? Read block by block. */
exg_status exg_weights_same_elements(exg_weights *of_a, const exg_weight *a, exg_weights *of_b,
                                     const exg_weight *b, bool *same, exg_error *err);

const char *exg_weights_directory(const exg_weights *weights);

/* The same storages, and what was skipped, with no weights yet; keeps `of` alive. */
exg_status exg_weights_beside(exg_weights *of, exg_weights **made, exg_error *err);

/* The same tables and storages; keeps `of` alive. */
exg_status exg_weights_like(exg_weights *of, exg_weights **made, exg_error *err);

/* `held` stays as long as `holder`. */
exg_status exg_weights_retain_in(exg_weights *holder, exg_weights *held, exg_error *err);

/* The storage reads from the maker from now on: length and byte order stay, checksum and
 * place go. */
void exg_storage_make(exg_storage *storage, const exg_storage_maker *maker);

/* Feeds `hasher` with what the bytes of all storages come from: which files, and what is made of
 * them. false: of some nothing is known that would hold in another process. External files are
 * opened. */
bool exg_weights_identify(exg_weights *weights, struct exg_hasher *hasher);

/* Are bytes read from the file of these numbers, and from others too? Of files that are open. */
bool exg_weights_read_part(const exg_weights *weights, uint64_t device, uint64_t inode);

/* The same as exg_weights_identify(), and where nothing is known the bytes of all storages, which
 * are read. */
exg_status exg_weights_identify_bytes(exg_weights *weights, exg_pool *pool,
                                      struct exg_hasher *hasher, exg_error *err);

/* The mapping goes to the weights, whose storages point into it; *mapping is empty
 * afterwards, on failure it stays with the caller. */
exg_status exg_weights_own_mapping(exg_weights *weights, exg_mapping *mapping, exg_error *err);

/* exg_file_map_below(), of a file that stays as long as the weights. */
exg_status exg_weights_map_below(exg_weights *weights, const char *folder, const char *name,
                                 const uint8_t **data, uint64_t *length, exg_error *err);

/* The place of a fault in a storage's bytes: "storages[3], of layer.weight". */
exg_status exg_storage_within(const exg_weights *weights, uint32_t storage, exg_status status,
                              exg_error *err);

/* How files that these weights name are read. */
void exg_weights_read_files(exg_weights *weights, exg_reading reading);
exg_reading exg_weights_reading(const exg_weights *weights);

/* Strides and offset of rows one after the other, of sizes that are numbers, into meta->strides;
 * dims of size 0 count as 1, and where that leaves 64 bits there are no elements to step over. */
void exg_tensor_meta_pack(exg_tensor_meta *meta);

#endif
