/* Until every file includes it by its public name. */
#include <exg/text.h>
