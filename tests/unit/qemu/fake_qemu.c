/* SPDX-License-Identifier: Apache-2.0 */
/* A QEMU that is a thread of the test, at the other end of a socket pair. */
#include "tests/unit/qemu/fake_qemu.h"

#include <check.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/util.h"

static bool put(struct fake_qemu *f, const char *bytes, size_t len)
{
	size_t step = f->bytewise ? 1 : len;

	while (len) {
		ssize_t n = send(f->fd, bytes, gs_min(step, len), MSG_NOSIGNAL);
		if (n <= 0)
			return false;
		bytes += n;
		len -= (size_t)n;
	}
	return true;
}

static bool put_text(struct fake_qemu *f, const char *text)
{
	return put(f, text, strlen(text));
}

static bool put_object(struct fake_qemu *f, json_t *object)
{
	char *text = json_dumps(object, f->pretty ? JSON_INDENT(4) : 0);
	bool ok = put_text(f, text) && put_text(f, "\r\n");

	free(text);
	json_decref(object);
	return ok;
}

/* --- what it answers --- */

static json_t *registers(const struct fake_qemu *f)
{
	static char text[4096]; /* one QEMU at a time */
	size_t n = 0;

	if (f->registers)
		return json_string(f->registers);
	for (unsigned int cpu = 0; cpu < 2; cpu++) {
		n += (size_t)snprintf(text + n, sizeof(text) - n, "\r\nCPU#%u\r\n PC=%016x ", cpu,
				      0x1000 + cpu);
		for (unsigned int i = 0; i < 31; i++)
			n += (size_t)snprintf(text + n, sizeof(text) - n, "X%02u=%016x%s", i, i,
					      i % 3 == 1 ? "\r\n" : " ");
		n += (size_t)snprintf(text + n, sizeof(text) - n,
				      " SP=%016x\r\nPSTATE=000003c5 ---- EL1h\r\n", 0x2000 + cpu);
	}
	return json_string(text);
}

static json_t *memory_map(const struct fake_qemu *f)
{
	if (f->map)
		return json_string(f->map);
	return json_sprintf("FlatView #1\r\n AS \"memory\", root: system\r\n"
			    "  %016x-%016" PRIx64 " (prio 0, ram): mem\r\n",
			    FAKE_RAM_START, FAKE_RAM_START + (uint64_t)f->ram_size - 1);
}

static json_t *words(const struct fake_qemu *f, const char *line)
{
	const char *bytes = f->shown ? f->shown : f->ram;
	static char text[32768];
	size_t count, n = 0;
	uint64_t at;

	if (sscanf(line, "xp /%zugx %" SCNx64, &count, &at) != 2 || count > 1024 || f->no_xp ||
	    !gs_in_range(at, count * 8, FAKE_RAM_START, f->ram_size))
		return json_string("Cannot access memory\r\n");
	text[0] = '\0';
	for (size_t i = 0; i < count; i++) {
		uint64_t word;

		memcpy(&word, bytes + (at - FAKE_RAM_START) + i * 8, 8);
		if (i % 2 == 0)
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%016" PRIx64 ":",
					      i ? "\r\n" : "", at + i * 8);
		n += (size_t)snprintf(text + n, sizeof(text) - n, " 0x%016" PRIx64, word);
	}
	return json_string(text);
}

static json_t *human(const struct fake_qemu *f, const char *line)
{
	uint64_t at;

	if (!strcmp(line, "info registers -a"))
		return registers(f);
	if (!strcmp(line, "info mtree -f"))
		return memory_map(f);
	if (!strncmp(line, "xp ", 3))
		return words(f, line);
	if (sscanf(line, "gpa2hva %" SCNx64, &at) == 1 && f->ram)
		return json_sprintf("Host virtual address for %#" PRIx64 " (mem) is %#" PRIxPTR, at,
				    (uintptr_t)f->ram + (uintptr_t)(at - FAKE_RAM_START));
	return json_sprintf("unknown command: '%s'\r\n", line);
}

static bool save(struct fake_qemu *f, const json_t *arguments)
{
	uint64_t at = (uint64_t)json_integer_value(json_object_get(arguments, "val"));
	size_t size = (size_t)json_integer_value(json_object_get(arguments, "size"));
	const char *bytes = f->shown ? f->shown : f->ram;

	f->saves++;
	if (f->no_pmemsave || !gs_in_range(at, size, FAKE_RAM_START, f->ram_size))
		return false;
	FILE *file = fopen(json_string_value(json_object_get(arguments, "filename")), "wb");
	if (!file)
		return false;
	bool ok = fwrite(bytes + (at - FAKE_RAM_START), 1, size, file) == size;
	return !fclose(file) && ok;
}

static void set_running(struct fake_qemu *f, bool running, uint32_t *count)
{
	pthread_mutex_lock(&f->lock);
	f->running = running;
	++*count;
	pthread_cond_broadcast(&f->changed);
	pthread_mutex_unlock(&f->lock);
}

/* NULL: an error */
static json_t *result(struct fake_qemu *f, const char *command, const json_t *arguments)
{
	if (!strcmp(command, "stop"))
		set_running(f, false, &f->stops);
	else if (!strcmp(command, "cont"))
		set_running(f, true, &f->conts);
	else if (!strcmp(command, "query-status"))
		return json_pack("{s:b, s:s}", "running", (int)f->running, "status", "whatever");
	else if (!strcmp(command, "query-cpus-fast"))
		return json_pack("[{s:i, s:s, s:{s:i, s:i}}, {s:i, s:s, s:{s:i, s:i}}]",
				 "cpu-index", 0, "target", "aarch64", "props", "socket-id", 0,
				 "cluster-id", 0, "cpu-index", 1, "target", "aarch64", "props",
				 "socket-id", 0, "cluster-id", 0);
	else if (!strcmp(command, "human-monitor-command"))
		return human(f, json_string_value(json_object_get(arguments, "command-line")));
	else if (!strcmp(command, "pmemsave"))
		return save(f, arguments) ? json_object() : NULL;
	else if (strcmp(command, "qmp_capabilities") != 0)
		return NULL;
	return json_object();
}

static bool put_error(struct fake_qemu *f, const char *class, const json_t *id)
{
	return put_object(f, json_pack("{s:{s:s, s:s}, s:O*}", "error", "class", class, "desc",
				       "as the test wants it", "id", id));
}

static bool answer(struct fake_qemu *f, const char *command, const json_t *request)
{
	json_t *value = result(f, command, json_object_get(request, "arguments"));
	json_t *id = json_object_get(request, "id");

	if (!value)
		return put_error(f, "GenericError", id);
	if (f->chatty && !(put_text(f, "{\"event\": \"STOP\", \"data\": {\"}\": \"\\\"{\"}}\r\n") &&
			   put_text(f, "{\"return\": {}, \"id\": \"of somebody else\"}\n")))
		return false;
	return put_object(f, json_pack("{s:o, s:O*}", "return", value, "id", id));
}

/* --- what it does wrong --- */

static bool repeat(struct fake_qemu *f, const char *text)
{
	while (put_text(f, text))
		continue;
	return false;
}

/* A long piece of a string. */
static const char *endless(void)
{
	static char text[32768];

	memset(text, 'a', sizeof(text) - 1);
	return text;
}

/* @return false: it hangs up */
static bool misbehave(struct fake_qemu *f, const char *command, const json_t *request)
{
	const json_t *id = json_object_get(request, "id");

	switch (f->fault) {
	case FAKE_NONE: break;
	case FAKE_SILENT: return true;
	case FAKE_LATE:
		sem_wait(&f->release);
		f->fault = FAKE_NONE;
		return answer(f, command, request);
	case FAKE_ERROR: return put_error(f, "GenericError", id);
	case FAKE_UNKNOWN: return put_error(f, "CommandNotFound", id);
	case FAKE_RUBBISH: return put_text(f, "HTTP/1.1 400 Bad Request\r\n\r\n");
	case FAKE_HALF: (void)put_text(f, "{\"return\": {\"stat"); return false;
	case FAKE_CLOSE: return false;
	case FAKE_EVENTS: return repeat(f, "{\"event\": \"RTC_CHANGE\"}\r\n");
	case FAKE_ENDLESS: return put_text(f, "{\"return\": \"") && repeat(f, endless());
	case FAKE_DEEP:
		for (int i = 0; i < 5000 && put_text(f, "{\"a\":"); i++)
			continue;
		for (int i = 0; i < 5000 && put_text(f, "}"); i++)
			continue;
		return true;
	case FAKE_NO_RETURN: return put_object(f, json_pack("{s:O*}", "id", id));
	case FAKE_WRONG_TYPE: return put_object(f, json_pack("{s:i, s:O*}", "return", 7, "id", id));
	}
	return answer(f, command, request);
}

/* --- its life --- */

static bool serve_line(struct fake_qemu *f, const char *line)
{
	json_t *request = json_loads(line, 0, NULL);
	const char *command = json_string_value(json_object_get(request, "execute"));
	bool ok;

	if (!command)
		ok = put_error(f, "GenericError", NULL);
	else if (f->faulty && !strcmp(command, f->faulty))
		ok = misbehave(f, command, request);
	else
		ok = answer(f, command, request);
	json_decref(request);
	return ok;
}

static bool greet(struct fake_qemu *f)
{
	bool faulty = f->faulty && !strcmp(f->faulty, "greeting");

	if (faulty && f->fault == FAKE_LATE)
		sem_wait(&f->release);
	else if (faulty)
		return misbehave(f, "greeting", NULL);
	return put_text(f, f->greeting ? f->greeting
				       : "{\"QMP\": {\"version\": {\"qemu\": {\"micro\": 0, "
					 "\"minor\": 2, \"major\": 7}, \"package\": \"\"}, "
					 "\"capabilities\": [\"oob\"]}}\r\n");
}

static void *fake_main(void *arg)
{
	struct fake_qemu *f = arg;
	static char line[65536];
	size_t len = 0;
	bool ok = greet(f);
	char c;

	while (ok && recv(f->fd, &c, 1, 0) == 1) {
		if (c == '\xff') {
			pthread_mutex_lock(&f->lock);
			f->resets++;
			pthread_mutex_unlock(&f->lock);
			len = 0;
		} else if (c != '\n') {
			line[len++] = c;
			ck_assert_uint_lt(len, sizeof(line));
		} else if (len) {
			line[len] = '\0';
			len = 0;
			ok = serve_line(f, line);
		}
	}
	shutdown(f->fd, SHUT_RDWR);
	pthread_mutex_lock(&f->lock);
	f->ended = true;
	pthread_cond_broadcast(&f->changed);
	pthread_mutex_unlock(&f->lock);
	return NULL;
}

int fake_connect(struct fake_qemu *f)
{
	int ends[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	pthread_mutex_init(&f->lock, NULL);
	pthread_cond_init(&f->changed, NULL);
	sem_init(&f->release, 0, 0);
	f->running = !f->paused;
	f->fd = ends[0];
	return ends[1];
}

void fake_run(struct fake_qemu *f)
{
	ck_assert_int_eq(pthread_create(&f->thread, NULL, fake_main, f), 0);
}

int fake_start(struct fake_qemu *f)
{
	int fd = fake_connect(f);

	fake_run(f);
	return fd;
}

void fake_release(struct fake_qemu *f)
{
	sem_post(&f->release);
}

struct fake_counts fake_counts(struct fake_qemu *f)
{
	pthread_mutex_lock(&f->lock);
	const struct fake_counts counts = { f->stops, f->conts, f->resets };
	pthread_mutex_unlock(&f->lock);
	return counts;
}

bool fake_await_running(struct fake_qemu *f, bool running)
{
	struct timespec deadline;

	clock_gettime(CLOCK_REALTIME, &deadline);
	deadline.tv_sec += 10;
	pthread_mutex_lock(&f->lock);
	while (f->running != running && !pthread_cond_timedwait(&f->changed, &f->lock, &deadline))
		continue;
	bool ok = f->running == running;
	pthread_mutex_unlock(&f->lock);
	return ok;
}

void fake_end(struct fake_qemu *f)
{
	fake_release(f);
	pthread_join(f->thread, NULL);
	close(f->fd);
	sem_destroy(&f->release);
	pthread_cond_destroy(&f->changed);
	pthread_mutex_destroy(&f->lock);
}
