/* SPDX-License-Identifier: MIT */
#ifndef MT_SERVER_HTTP_H
#define MT_SERVER_HTTP_H

/*
 * One document over HTTP, made anew for whoever asks: GET and HEAD of one path, nothing else. One
 * thread serves all; connections, their memory and their time are bounded.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"

struct mt_http;

/*
 * Makes the document into the empty *body and names its content type (a static string). `accept`
 * is the request's header, "" without one. Called in the server's thread only, one call at a time.
 * 0, or a negative errno value: the client then gets status 500.
 */
typedef int mt_http_document(void *context, const char *accept, struct mt_buf *body,
			     const char **ret_content_type);

struct mt_http_options {
	const char *listen; /* "ADDRESS:PORT", "[ADDRESS]:PORT", ":PORT" or "PORT": loopback; port
			       0: any */
	const char *path;   /* "/metrics" */
	mt_http_document *document;
	void *context;
};

/*
 * Starts to serve; what `options` points to must outlive the server. 0: *ret_server is stopped with
 * mt_http_stop(). Else a negative errno value with *err: -EINVAL for an address that cannot be
 * understood, else that of the failed call.
 */
int mt_http_start(const struct mt_http_options *options, struct mt_http **ret_server,
		  struct mt_err *err);

/* "http://ADDRESS:PORT/path" with the real port; borrowed from the server. */
const char *mt_http_url(const struct mt_http *server);

/* Ends all connections and frees. NULL is allowed. */
void mt_http_stop(struct mt_http *server);
MT_AUTO_DEFINE(mt_http, struct mt_http *, mt_http_stop)

#endif
