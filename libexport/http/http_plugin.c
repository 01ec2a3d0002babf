/* http_plugin.c - parts of files by libcurl. */
#include "libexport/http/http_plugin.h"

#include <curl/curl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define LEAST_SPEED 1024L /* bytes a second */

struct exg_http_client {
    CURL *curl;
    exg_http_take_fn *take;
    void *user;
    exg_http_answer *answer;
    bool ended;
};

/* ---- what an answer says -------------------------------------------------------------------- */

/* The value of the header `name` in a line, without blanks around it; NULL: another header. */
static const char *value_of(const char *line, size_t length, const char *name, size_t *bytes)
{
    size_t at = strlen(name);

    if (length <= at || strncasecmp(line, name, at) != 0 || line[at] != ':') {
        return NULL;
    }
    for (at++; at < length && (line[at] == ' ' || line[at] == '\t'); at++) {
    }
    while (length > at && strchr(" \t\r\n", line[length - 1]) != NULL) {
        length--;
    }
    *bytes = length - at;
    return line + at;
}

static void keep(const char *value, size_t bytes, char text[EXG_HTTP_TEXT_MAX])
{
    if (bytes < EXG_HTTP_TEXT_MAX) {
        memcpy(text, value, bytes);
        text[bytes] = '\0';
    }
}

/* "bytes 0-99/1000", "bytes 0-99" followed by a slash and a star, "bytes", a star and "/1000" */
static void read_range(const char *value, exg_http_answer *answer)
{
    uint64_t first;
    uint64_t last;
    uint64_t total;

    if (sscanf(value, "bytes %" SCNu64 "-%" SCNu64 "/%" SCNu64, &first, &last, &total) == 3) {
        answer->has_range = first <= last && last < total;
        answer->has_total = answer->has_range;
        answer->first = first;
        answer->last = last;
        answer->total = total;
    } else if (sscanf(value, "bytes */%" SCNu64, &total) == 1) {
        answer->has_total = true;
        answer->total = total;
    }
}

static size_t take_header(char *line, size_t size, size_t count, void *user)
{
    exg_http_client *client = user;
    exg_http_answer *answer = client->answer;
    size_t length = size * count;
    char text[EXG_HTTP_TEXT_MAX] = "";
    const char *value;
    size_t bytes;

    if (length >= 5 && memcmp(line, "HTTP/", 5) == 0) { /* one more answer: what was, is over */
        *answer = (exg_http_answer){0};
    } else if ((value = value_of(line, length, "etag", &bytes)) != NULL) {
        keep(value, bytes, answer->etag);
    } else if ((value = value_of(line, length, "last-modified", &bytes)) != NULL) {
        keep(value, bytes, answer->modified);
    } else if ((value = value_of(line, length, "content-range", &bytes)) != NULL) {
        keep(value, bytes, text);
        read_range(text, answer);
    } else if (!answer->has_total &&
               (value = value_of(line, length, "content-length", &bytes)) != NULL) {
        keep(value, bytes, text);
        answer->total = strtoull(text, NULL, 10); /* of a part it is told by its range */
    }
    return length;
}

static size_t take_body(char *bytes, size_t size, size_t count, void *user)
{
    exg_http_client *client = user;

    (void)curl_easy_getinfo(client->curl, CURLINFO_RESPONSE_CODE, &client->answer->status);
    if (!client->take(client->user, client->answer, bytes, size * count)) {
        client->ended = true;
        return 0;
    }
    return size * count;
}

/* ---- a request ------------------------------------------------------------------------------ */

static exg_http_outcome outcome_of(const exg_http_client *client, CURLcode code)
{
    switch (code) {
    case CURLE_OK:
        return EXG_HTTP_DONE;
    case CURLE_WRITE_ERROR:
        return client->ended ? EXG_HTTP_ENDED : EXG_HTTP_FAILED;
    case CURLE_URL_MALFORMAT:
        return EXG_HTTP_URL;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
        return EXG_HTTP_CONNECT;
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_ISSUER_ERROR:
        return EXG_HTTP_TLS;
    case CURLE_OPERATION_TIMEDOUT:
        return EXG_HTTP_TIME;
    case CURLE_TOO_MANY_REDIRECTS:
    case CURLE_UNSUPPORTED_PROTOCOL:
        return EXG_HTTP_MOVED;
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_HTTP2_STREAM:
    case CURLE_HTTP2:
        return EXG_HTTP_CUT;
    default:
        return EXG_HTTP_FAILED;
    }
}

static void set_rules(CURL *curl, const exg_http_request *request)
{
    const char *later = strncasecmp(request->url, "https:", 6) == 0 ? "https" : "http,https";

    (void)curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, later);
    (void)curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_MAXREDIRS, (long)request->redirects);
    (void)curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, (long)request->timeout);
    (void)curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, LEAST_SPEED);
    (void)curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, (long)request->timeout);
    (void)curl_easy_setopt(curl, CURLOPT_USERAGENT, "exg");
    if (request->token != NULL) {
        (void)curl_easy_setopt(curl, CURLOPT_HTTPAUTH, (long)CURLAUTH_BEARER);
        (void)curl_easy_setopt(curl, CURLOPT_XOAUTH2_BEARER, request->token);
    }
}

/* Of the bytes as they are: a range of a compressed file would be one of other bytes. */
static struct curl_slist *make_headers(const exg_http_request *request)
{
    struct curl_slist *headers = curl_slist_append(NULL, "Accept-Encoding: identity");
    struct curl_slist *longer = NULL;
    char text[EXG_HTTP_TEXT_MAX + 16];

    if (headers == NULL || request->validator == NULL) {
        return headers;
    }
    snprintf(text, sizeof(text), "If-Range: %s", request->validator);
    longer = curl_slist_append(headers, text);
    if (longer == NULL) {
        curl_slist_free_all(headers);
    }
    return longer;
}

static exg_http_outcome get(exg_http_client *client, const exg_http_request *request,
                            exg_http_take_fn *take, void *user, exg_http_answer *answer)
{
    CURL *curl = client->curl;
    struct curl_slist *headers = make_headers(request);
    char range[64];
    char error[CURL_ERROR_SIZE] = "";
    CURLcode code;

    *answer = (exg_http_answer){0};
    if (headers == NULL) {
        return EXG_HTTP_FAILED;
    }
    client->take = take;
    client->user = user;
    client->answer = answer;
    client->ended = false;
    snprintf(range, sizeof(range), "%" PRIu64 "-%" PRIu64, request->first, request->last);
    curl_easy_reset(curl); /* connections stay */
    set_rules(curl, request);
    (void)curl_easy_setopt(curl, CURLOPT_URL, request->url);
    (void)curl_easy_setopt(curl, CURLOPT_RANGE, range);
    (void)curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    (void)curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, take_header);
    (void)curl_easy_setopt(curl, CURLOPT_HEADERDATA, client);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_body);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEDATA, client);
    (void)curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error);
    code = curl_easy_perform(curl);
    (void)curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &answer->status);
    (void)curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, NULL);
    snprintf(answer->message, sizeof(answer->message), "%s",
             error[0] == '\0' ? curl_easy_strerror(code) : error);
    curl_slist_free_all(headers);
    return outcome_of(client, code);
}

static void destroy(exg_http_client *client)
{
    curl_easy_cleanup(client->curl);
    free(client);
}

static exg_http_client *create(void)
{
    exg_http_client *client = calloc(1, sizeof(*client));

    if (client != NULL) {
        client->curl = curl_easy_init(); /* also what curl_global_init() does, which is safe */
        if (client->curl == NULL) {
            free(client);
            return NULL;
        }
    }
    return client;
}

extern const exg_http_plugin exg_http_plugin_table;
__attribute__((visibility("default")))
const exg_http_plugin exg_http_plugin_table = {EXG_HTTP_PLUGIN_VERSION, create, destroy, get};
