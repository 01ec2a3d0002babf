/* on_device.h - the kernels' tests on a device: with EXG_KERNEL_DEVICE=cuda in the environment
 * each call runs on the device's kernel, and must give what the test worked out. With
 * EXG_KERNEL_ONE_OF=N too one call in N of each kernel's does, the first among them; with
 * EXG_KERNEL_PREPARE_ONLY too it is only compiled, and all run on the host.
 */
#ifndef EXG_TESTS_EXEC_KERNELS_ON_DEVICE_H
#define EXG_TESTS_EXEC_KERNELS_ON_DEVICE_H

#include "libexec/kernels/kernel.h"

/* Is a device asked for? */
bool on_device(void);

/* Runs a call whose operands lie in tensors of the harness and whose prepare() did not run (of
 * a pointwise program: is finished). `packs`: by what the kernel's packer makes there. False: the
 * device leaves this call to the host. */
bool run_on_device(const exg_kernel *kernel, const exg_kernel_call *call, bool packs,
                   exg_fault_note *fault);

#endif
