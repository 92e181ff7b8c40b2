/* SPDX-License-Identifier: Apache-2.0 */
/* A QEMU that is a thread of the test, at the other end of a socket pair. */
#ifndef TESTS_UNIT_QEMU_FAKE_QEMU_H
#define TESTS_UNIT_QEMU_FAKE_QEMU_H

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * It speaks QMP as QEMU does, and has one misbehaviour for one command. Since it is a thread, "the
 * process of QEMU" that the socket names is the test itself: its memory is there to be read.
 */
enum fake_fault {
	FAKE_NONE,
	FAKE_SILENT,	/* no answer */
	FAKE_LATE,	/* the answer comes after fake_release() */
	FAKE_ERROR,	/* {"error": …} */
	FAKE_UNKNOWN,	/* {"error": {"class": "CommandNotFound"}} */
	FAKE_RUBBISH,	/* bytes that are no JSON */
	FAKE_HALF,	/* half an answer, then the end */
	FAKE_CLOSE,	/* the end */
	FAKE_EVENTS,	/* events without end instead */
	FAKE_ENDLESS,	/* an answer without end */
	FAKE_DEEP,	/* brackets without end */
	FAKE_NO_RETURN, /* an answer that is neither result nor error */
	FAKE_WRONG_TYPE,
};

struct fake_qemu {
	/* set before the start */
	const char *greeting; /* NULL: QEMU's */
	enum fake_fault fault;
	const char *faulty;    /* the command, or "greeting" */
	bool bytewise;	       /* each answer in single bytes */
	bool chatty;	       /* events before each answer */
	bool pretty;	       /* answers of several lines */
	bool paused;	       /* from the start */
	const char *registers; /* NULL: two CPUs */
	const char *map;       /* NULL: made of ram */
	const void *ram;       /* what gpa2hva leads to; NULL: it leads nowhere */
	const void *shown;     /* what xp and pmemsave show; NULL: the same */
	size_t ram_size;
	bool no_pmemsave, no_xp;

	/* seen; under lock */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	uint32_t stops, conts, resets; /* resets: 0xff was seen */
	uint32_t saves;		       /* memory was asked for by pmemsave; its thread's */
	bool running, ended;

	/* its own */
	int fd;
	pthread_t thread;
	bool half_command; /* bytes without an end of line are waiting */
	sem_t release;
};

#define FAKE_RAM_START 0x40000000u

/** Start it. @return the client's end */
int fake_start(struct fake_qemu *f);

/**
 * The same in two steps, for who forks in between: a thread that is being started holds locks of the
 * sanitizers, for which a forked child would wait for ever.
 */
int fake_connect(struct fake_qemu *f);
void fake_run(struct fake_qemu *f);

/** Let a late answer go. */
void fake_release(struct fake_qemu *f);

struct fake_counts {
	uint32_t stops, conts, resets;
};

/** What it has seen so far; after fake_end() the fields may be read as they are. */
struct fake_counts fake_counts(struct fake_qemu *f);

/** Wait until it runs (or has been paused), at most 10 s. */
bool fake_await_running(struct fake_qemu *f, bool running);

/** Wait until every client has gone, and end it. */
void fake_end(struct fake_qemu *f);

#endif
