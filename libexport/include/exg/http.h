/* http.h - models on a server, by http:// and https://.
 *
 * Nothing here is used by itself: exg_open_options.open_source is set to exg_http_open_source(),
 * and source_user to an exg_http. libcurl is loaded then, by way of libexg_http.so, when the first
 * such address is opened.
 *
 * Servers must give parts of a file (Range), but for files up to 16 MiB. Certificates are checked;
 * what follows a redirection is http:// or https://, from https:// only the latter. A file that
 * becomes another one meanwhile is told (IO-CHANGED, by its ETag or date). Proxies are those of the
 * environment (https_proxy, no_proxy), as libcurl takes them.
 *
 * Threads: any.
 */
#ifndef EXG_HTTP_H
#define EXG_HTTP_H

#include <exg/byte_source.h>
#include <exg/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct exg_http exg_http;

typedef struct exg_http_options {
    size_t size;        /* sizeof(exg_http_options) */
    uint32_t timeout;   /* seconds in which less than 1 KiB a second comes; 0: 30 */
    uint32_t redirects; /* that are followed at most; 0: 5 */
    const char *token;  /* sent to the servers of the addresses that are opened, as "Authorization:
                           Bearer", over https:// and to this machine alone, and not after a
                           redirection to another; NULL: none. Copied */
} exg_http_options;

/* `options` may be NULL. NO_MEMORY. */
EXG_NODISCARD exg_status exg_http_create(const exg_http_options *options, exg_http **http,
                                         exg_error *err);

/* What was opened with it stays open. NULL is allowed. */
void exg_http_destroy(exg_http *http);

/* An exg_open_source_fn, whose `user` is an exg_http: the bytes at an address; of any other name
 * *source stays as it is. What was read at the beginning, and other small reads, are kept for the
 * next time. UNSUPPORTED (HTTP-LOAD, HTTP-RANGE), IO (HTTP-*, IO-CHANGED), USAGE (HTTP-URL). */
EXG_NODISCARD exg_status exg_http_open_source(void *http, const char *name, exg_byte_source *source,
                                              exg_error *err);

#ifdef __cplusplus
}
#endif

#endif
