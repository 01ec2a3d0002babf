/* isa.c - the instruction-set level that a test runs at: EXG_ISA, chosen before main() begins; amx
 * by its stand-in where the processor has none. A level that there is not skips the test (77). */
#include "tests/standin/amx.h"

#include <exg/device.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

__attribute__((constructor)) static void choose_level(void)
{
    const char *level = getenv("EXG_ISA");

    if (level == NULL) {
        return;
    }
    if (strcmp(level, "amx") == 0) {
        (void)amx_stand_in();
    }
    if (exg_isa_choose(level, NULL) != EXG_OK) {
        _Exit(77);
    }
}

/* The C library's, which takes the signal of the stand-in from nobody: cmocka would, for each
 * test. */
void (*signal(int number, void (*handler)(int)))(int)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    struct sigaction old = {0};

    if (number == SIGILL && amx_stands_in()) {
        return SIG_DFL;
    }
    return sigaction(number, &action, &old) == 0 ? old.sa_handler : SIG_ERR;
}
