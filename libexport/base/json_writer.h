/* Until every file includes it by its public name. */
#include <exg/json_writer.h>
