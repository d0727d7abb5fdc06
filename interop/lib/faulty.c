/*
 * A library to preload into a server that injects faults: a full disk, a slow disk, a wrong clock.
 * The test controls them while the server runs, through the file that FAULTY names (struct control).
 *
 * It intercepts only calls of the C library, so it has no effect on programs in Go. A full disk
 * still allows preallocation (fallocate); only writes fail.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* Written by internal/faulty in Go, little-endian. */
struct control {
	int64_t clock_ns; /* offset of the wall clock */
	int32_t full;     /* writes fail with ENOSPC */
	int32_t sync_ms;  /* delay of each sync */
};

static const volatile struct control *control;

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("FAULTY");
	int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *shared = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *control, PROT_READ, MAP_SHARED, file, 0);
	if (shared == MAP_FAILED)
		abort(); /* Without control every fault would seem to be survived. */
	control = shared;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* Whether a write fails: on regular files except stdin, stdout and stderr, not on sockets. */
static int refused(int file)
{
	struct stat found;
	return control && control->full && file > STDERR_FILENO && fstat(file, &found) == 0 && S_ISREG(found.st_mode);
}

#define WRITES(kind, name, parameters, arguments)     \
	kind name parameters                          \
	{                                             \
		if (refused(file)) {                  \
			errno = ENOSPC;               \
			return -1;                    \
		}                                     \
		return NEXT(name) arguments;          \
	}

WRITES(ssize_t, write, (int file, const void *bytes, size_t count), (file, bytes, count))
WRITES(ssize_t, pwrite64, (int file, const void *bytes, size_t count, off64_t at), (file, bytes, count, at))
WRITES(ssize_t, writev, (int file, const struct iovec *parts, int count), (file, parts, count))
WRITES(ssize_t, pwritev64, (int file, const struct iovec *parts, int count, off64_t at), (file, parts, count, at))
WRITES(int, ftruncate64, (int file, off64_t size), (file, size))

/* Delays a sync, in slices, so that the end of the fault also ends the syncs that hang. */
static void dawdle(void)
{
	const int32_t slice_ms = 10;
	for (int32_t slept_ms = 0; control && slept_ms < control->sync_ms; slept_ms += slice_ms) {
		struct timespec pause = {0, slice_ms * 1000000L};
		while (nanosleep(&pause, &pause) != 0 && errno == EINTR)
			;
	}
}

int fdatasync(int file)
{
	dawdle();
	return NEXT(fdatasync)(file);
}

int fsync(int file)
{
	dawdle();
	return NEXT(fsync)(file);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
	int failed = NEXT(clock_gettime)(clock, now);
	if (failed || !control || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE))
		return failed;
	int64_t ns = now->tv_nsec + control->clock_ns % 1000000000;
	now->tv_sec += control->clock_ns / 1000000000 + (ns >= 1000000000) - (ns < 0);
	now->tv_nsec = ns + (ns < 0) * 1000000000 - (ns >= 1000000000) * 1000000000;
	return 0;
}
