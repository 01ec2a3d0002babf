/* log.h - what the stand-ins were asked for, line by line, in the file that the environment's
 * EXG_STANDIN_LOG names; a file for each device, NAME.0, NAME.1, with EXG_STANDIN_LOG_BY.
 */
#ifndef EXG_TESTS_STANDIN_LOG_H
#define EXG_TESTS_STANDIN_LOG_H

void standin_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
