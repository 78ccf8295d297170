/* SPDX-License-Identifier: MIT */
/*
 * libmicrohttpd with one thread of its own. The thread is the only one that asks for the document,
 * so whoever makes it needs no lock.
 */

#include "server/http.h"

#include "base/alloc.h"
#include "base/units.h"
#include "core/cc.h"

#include <errno.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>

enum {
	CONNECTIONS = 32,
	IDLE_S = 10,
	CONNECTION_BYTES = 16 << 10,
	BACKLOG = 64,
	ADDRESS_MAX = 256
};

struct mt_http {
	struct mt_http_options options;
	struct MHD_Daemon *daemon;
	char url[ADDRESS_MAX + 64];
};

/* ---- requests ---- */

static enum MHD_Result answer(struct MHD_Connection *c, unsigned status, struct MHD_Response *r)
{
	enum MHD_Result queued = r ? MHD_queue_response(c, status, r) : MHD_NO;

	if (r)
		MHD_destroy_response(r);
	return queued;
}

static enum MHD_Result answer_text(struct MHD_Connection *c, unsigned status, const char *text)
{
	struct MHD_Response *r =
		MHD_create_response_from_buffer(strlen(text), (void *)text, MHD_RESPMEM_PERSISTENT);

	if (r)
		MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE,
					"text/plain; charset=utf-8");
	if (r && status == MHD_HTTP_METHOD_NOT_ALLOWED)
		MHD_add_response_header(r, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	return answer(c, status, r);
}

static enum MHD_Result answer_document(const struct mt_http *s, struct MHD_Connection *c)
{
	const char *accept =
		MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT);
	mt_auto(mt_buf) struct mt_buf body = {0};
	const char *type = NULL;
	struct MHD_Response *r;
	size_t len;
	char *data;

	if (s->options.document(s->options.context, accept ? accept : "", &body, &type))
		return answer_text(c, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory\n");
	data = mt_buf_steal(&body, &len);
	if (!data)
		return answer_text(c, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory\n");
	r = MHD_create_response_from_buffer(len, data, MHD_RESPMEM_MUST_FREE);
	if (!r)
		free(data);
	else
		MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	return answer(c, MHD_HTTP_OK, r);
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *c, const char *url,
				  const char *method, const char *version, const char *upload_data,
				  size_t *upload_bytes, void **state)
{
	static const char seen;
	const struct mt_http *s = context;

	/* the first call has the headers only; a body is taken and dropped */
	if (!*state) {
		*state = (void *)&seen;
		return MHD_YES;
	}
	if (*upload_bytes) {
		*upload_bytes = 0;
		return MHD_YES;
	}
	if (strcmp(method, MHD_HTTP_METHOD_GET) && strcmp(method, MHD_HTTP_METHOD_HEAD))
		return answer_text(c, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD\n");
	if (strcmp(url, s->options.path))
		return answer_text(c, MHD_HTTP_NOT_FOUND, "not found\n");
	return answer_document(s, c);
}

/* ---- the address ---- */

/* Splits "ADDRESS:PORT" at its last colon; without address both host and *ret_port are set so. */
static int split_address(const char *text, char *host, char *port)
{
	const char *colon = strrchr(text, ':');
	const char *digits = colon ? colon + 1 : text;
	size_t len = colon ? (size_t)(colon - text) : 0;
	uint64_t number;

	if (mt_units_parse_count(digits, &number) || number > UINT16_MAX || len >= ADDRESS_MAX)
		return -EINVAL;
	if (len >= 2 && text[0] == '[' && text[len - 1] == ']') {
		text++;
		len -= 2;
	} else if (memchr(text, ':', len)) {
		return -EINVAL; /* an IPv6 address needs brackets */
	}
	snprintf(host, ADDRESS_MAX, "%.*s", (int)len, text);
	if (!len)
		snprintf(host, ADDRESS_MAX, "127.0.0.1");
	snprintf(port, 8, "%" PRIu64, number);
	return 0;
}

static int open_socket(const struct addrinfo *a)
{
	int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (!bind(fd, a->ai_addr, a->ai_addrlen) && !listen(fd, BACKLOG))
		return fd;
	one = -errno;
	close(fd);
	return one;
}

static int listen_at(const char *text, struct mt_err *err)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found;
	char host[ADDRESS_MAX], port[8];
	int code = split_address(text, host, port);

	if (code)
		return mt_err_set(err, code,
				  "'%s' is no address to listen at (examples: 127.0.0.1:9468, "
				  "[::1]:9468, 9468)",
				  text);
	code = getaddrinfo(host, port, &hints, &found);
	if (code)
		return mt_err_set(err, -EINVAL, "cannot listen at '%s': %s", text,
				  gai_strerror(code));
	code = open_socket(found);
	freeaddrinfo(found);
	return code < 0 ? mt_err_set_errno(err, code, "cannot listen at '%s'", text) : code;
}

static void write_url(struct mt_http *s, int fd)
{
	struct sockaddr_storage address;
	socklen_t len = sizeof(address);
	char host[ADDRESS_MAX] = "?", port[8] = "0";

	if (!getsockname(fd, (struct sockaddr *)&address, &len))
		getnameinfo((struct sockaddr *)&address, len, host, sizeof(host), port,
			    sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV);
	snprintf(s->url, sizeof(s->url), strchr(host, ':') ? "http://[%s]:%s%s" : "http://%s:%s%s",
		 host, port, s->options.path);
}

int mt_http_start(const struct mt_http_options *options, struct mt_http **ret_server,
		  struct mt_err *err)
{
	mt_auto(close) int fd = listen_at(options->listen, err);
	mt_auto(free) struct mt_http *s = mt_alloc_zero(1, sizeof(*s));

	if (fd < 0)
		return fd;
	if (!s)
		return mt_err_no_memory(err);
	s->options = *options;
	write_url(s, fd);
	s->daemon = MHD_start_daemon(
		MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL, 0, NULL, NULL, on_request, s,
		MHD_OPTION_LISTEN_SOCKET, (MHD_socket)fd, MHD_OPTION_CONNECTION_LIMIT,
		(unsigned)CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES, MHD_OPTION_END);
	if (!s->daemon)
		return mt_err_set(err, -EAGAIN, "cannot serve '%s': no thread could be started",
				  options->listen);
	fd = -1; /* the daemon's now */
	*ret_server = s;
	s = NULL;
	return 0;
}

const char *mt_http_url(const struct mt_http *server)
{
	return server->url;
}

void mt_http_stop(struct mt_http *server)
{
	if (!server)
		return;
	MHD_stop_daemon(server->daemon);
	free(server);
}
