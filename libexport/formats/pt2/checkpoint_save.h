/* checkpoint_save.h - what torch.save writes of one tensor, for those who put several after one
 * another into a file. */
#ifndef EXG_LIBEXPORT_FORMATS_PT2_CHECKPOINT_SAVE_H
#define EXG_LIBEXPORT_FORMATS_PT2_CHECKPOINT_SAVE_H

#include "libexport/formats/weights_save.h"

/* Has PyTorch all of these tensors? UNSUPPORTED (STF-DTYPE). */
exg_status exg_checkpoint_prepare(exg_weights_saver *s);

/* An archive of one tensor, and nothing else, from where the file is on. *bytes is how long it is,
 * which its dtype and shape decide: without a file that alone is found. */
exg_status exg_checkpoint_put_alone(exg_weights_saver *s, const exg_saved_file *file,
                                    const exg_saved_tensor *tensor, uint64_t *bytes);

#endif
