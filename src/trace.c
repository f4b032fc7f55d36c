/* SPDX-License-Identifier: Apache-2.0 */
/* The writer. What may go wrong while it runs, and what is done about it:
 *   - the process is killed: the pages belong to the file, not to us;
 *   - the disk is full: space is allocated before it is mapped, so a store
 *     never faults; the same for RLIMIT_FSIZE, whose signal would kill;
 *   - the program closes descriptors it did not open, and reuses the number:
 *     the inode is compared before each growth;
 *   - the program forks: the child loses the state (wiped) and the window. */
#include "config.h"

#include "src/trace.h"

#include "src/alloc.h"
#include "src/clock.h"
#include "src/lock.h"
#include "src/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

enum { BLOCK_BYTES = 1 << 20, HIGH_FD = 512, VARINT_BYTES = 10 };

struct dcp_trace {
    atomic_bool live;      /* false: puts do nothing */
    struct dcp_lock lock;  /* guards what follows */
    uint8_t *window;       /* file bytes from `base` on */
    uint64_t base, end;    /* what the window covers */
    uint64_t at;           /* where the next record goes, multiple of 8 */
    int fd;
    dev_t device;          /* of the file behind fd */
    ino_t inode;
    char path[PATH_MAX];
};

static const char schema[] =
#define EVENT(name, ...) #name " " #__VA_ARGS__ "\n"
#include "src/trace.def"
#undef EVENT
    ;

_Static_assert(sizeof schema + sizeof(struct dcp_trace_head) <= DCP_TRACE_HEAD,
               "the table of kinds fits the head");
_Static_assert(sizeof(struct dcp_trace_record) == 24, "no padding");

/* --- the file ------------------------------------------------------------ */

static int
make_directories(const char *dir)
{
    char path[PATH_MAX];
    size_t length = strlen(dir);

    if (length >= sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(path, dir, length + 1);
    for (char *p = path + 1; *p; p++)
        if (*p == '/') {
            *p = '\0';
            mkdir(path, 0777); /* the last one tells */
            *p = '/';
        }
    return mkdir(path, 0777) == 0 || errno == EEXIST ? 0 : -1;
}

/* Locks belong to the process and end with it, whatever children inherit.
 * Where the file system knows no locks, nobody is known to hold one. */
static bool
lock_held_by_other(int fd)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    return fcntl(fd, F_SETLK, &lock) && (errno == EAGAIN || errno == EACCES);
}

static int
open_high(const char *path, int flags)
{
    int fd = open(path, flags | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0666);

    if (fd < 0 || fd >= HIGH_FD)
        return fd;
    int high = fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD);
    if (high < 0)
        return fd;
    close(fd); /* no lock is held yet, so none is lost */
    return high;
}

/* A new, locked file at `path`; a file of an earlier run is unlinked, never
 * truncated: somebody may have it mapped. -1 with errno; EBUSY: a living
 * process writes there. */
static int
create_file(const char *path)
{
    for (int tries = 0; tries < 4; tries++) {
        int fd = open_high(path, O_CREAT | O_EXCL);
        if (fd >= 0) {
            struct stat st;
            if (!lock_held_by_other(fd) && !fstat(fd, &st) && st.st_nlink)
                return fd;
            close(fd);
            errno = EBUSY;
            return -1;
        }
        if (errno != EEXIST)
            return -1;
        fd = open_high(path, 0);
        if (fd < 0 && errno != EACCES && errno != ELOOP && errno != ENOENT)
            return -1;
        if (fd >= 0 && lock_held_by_other(fd)) {
            close(fd);
            errno = EBUSY;
            return -1;
        }
        int gone = unlink(path);
        int keep = errno;
        if (fd >= 0)
            close(fd);
        errno = keep;
        if (gone && errno != ENOENT)
            return -1;
    }
    errno = EBUSY;
    return -1;
}

/* Takes away files that second processes of this rank left in earlier runs. */
static void
remove_stale(const char *dir, int rank)
{
    char prefix[32], path[PATH_MAX];
    int length = snprintf(prefix, sizeof prefix, "rank%d.", rank);
    DIR *list = opendir(dir);

    if (!list)
        return;
    for (struct dirent *entry; (entry = readdir(list));) {
        char *rest = entry->d_name + length;
        if (strncmp(entry->d_name, prefix, (size_t)length) || *rest < '1' ||
            *rest > '9' || strcmp(rest + strspn(rest, "0123456789"), ".dcp"))
            continue;
        int n = snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
        if (n < 0 || n >= (int)sizeof path)
            continue;
        int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        if (fd >= 0 && !fcntl(fd, F_GETLK, &lock) && lock.l_type == F_UNLCK)
            unlink(path);
        if (fd >= 0)
            close(fd);
    }
    closedir(list);
}

static int
choose_file(struct dcp_trace *trace, const char *dir, int rank)
{
    int n = snprintf(trace->path, sizeof trace->path, "%s/rank%d.dcp", dir,
                     rank);

    if (n < 0 || n >= (int)sizeof trace->path - 16) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int fd = create_file(trace->path);
    if (fd >= 0) {
        remove_stale(dir, rank);
        return fd;
    }
    if (errno != EBUSY)
        return -1;
    snprintf(trace->path + n - 4, sizeof trace->path - (size_t)n, ".%ld.dcp",
             (long)getpid());
    return create_file(trace->path);
}

/* --- space --------------------------------------------------------------- */

/* Grows the file to `end`, so that every byte of it has its place. Returns an
 * errno, 0 when done. */
static int
allocate(const struct dcp_trace *trace, uint64_t from, uint64_t end)
{
    struct rlimit limit;
    struct stat st;
    int error;

    if (fstat(trace->fd, &st) || st.st_dev != trace->device ||
        st.st_ino != trace->inode)
        return EBADF;
    if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur != RLIM_INFINITY &&
        end > limit.rlim_cur)
        return EFBIG;
    do
        error = posix_fallocate(trace->fd, (off_t)from, (off_t)(end - from));
    while (error == EINTR);
    return error;
}

/* Moves the window so that `need` more bytes fit. Returns an errno. */
static int
grow(struct dcp_trace *trace, size_t need)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t base = trace->at & ~(page - 1);
    uint64_t span = trace->at - base + need + BLOCK_BYTES - 1;
    uint64_t end = base + (span & ~(uint64_t)(BLOCK_BYTES - 1));
    int error = allocate(trace, base, end);

    if (error)
        return error;
    if (dcp_alloc_fails())
        return ENOMEM;
    void *window = mmap(NULL, end - base, PROT_READ | PROT_WRITE, MAP_SHARED,
                        trace->fd, (off_t)base);
    if (window == MAP_FAILED)
        return errno;
    madvise(window, end - base, MADV_DONTFORK);
    if (trace->window)
        munmap(trace->window, trace->end - trace->base);
    trace->window = window;
    trace->base = base;
    trace->end = end;
    return 0;
}

/* No further puts; cuts the file to what was appended. Lock held. */
static void
finish(struct dcp_trace *trace)
{
    struct stat st;

    atomic_store_explicit(&trace->live, false, memory_order_relaxed);
    if (trace->window)
        munmap(trace->window, trace->end - trace->base);
    trace->window = NULL;
    if (!fstat(trace->fd, &st) && st.st_dev == trace->device &&
        st.st_ino == trace->inode) {
        int cut = ftruncate(trace->fd, (off_t)trace->at);
        (void)cut; /* a longer file reads as well */
        close(trace->fd);
    }
    trace->fd = -1;
}

/* --- public -------------------------------------------------------------- */

static void
write_head(struct dcp_trace *trace, int rank, int world)
{
    struct timespec wall;

    clock_gettime(CLOCK_REALTIME, &wall);
    struct dcp_trace_head head = {
        .magic = DCP_TRACE_MAGIC,
        .version = DCP_TRACE_VERSION,
        .schema_bytes = sizeof schema - 1,
        .rank = (uint32_t)rank,
        .world = (uint32_t)world,
        .pid = (uint32_t)getpid(),
        .start_ns = dcp_now_ns(),
        .wall_ns = (uint64_t)wall.tv_sec * 1000000000u +
                   (uint64_t)wall.tv_nsec,
    };
    memcpy(trace->window + sizeof head, schema, sizeof schema - 1);
    memcpy(trace->window, &head, sizeof head);
    trace->at = DCP_TRACE_HEAD;
}

struct dcp_trace *
dcp_trace_open(const char *dir, int rank, int world)
{
    struct stat st;
    struct dcp_trace *trace = dcp_map(sizeof *trace);

    if (trace == NULL) {
        dcp_warn("trace: out of memory; going on without a trace");
        return NULL;
    }
    madvise(trace, sizeof *trace, MADV_WIPEONFORK);
    if (rank < 0)
        rank = 0;
    trace->fd = make_directories(dir) ? -1 : choose_file(trace, dir, rank);
    if (trace->fd < 0 || fstat(trace->fd, &st)) {
        dcp_warn("trace: cannot create a file in %s: %s; going on without a "
                 "trace", dir, strerror(errno));
        goto err_unmap;
    }
    trace->device = st.st_dev;
    trace->inode = st.st_ino;
    int error = grow(trace, DCP_TRACE_HEAD);
    if (error) {
        dcp_warn("trace: cannot write %s: %s; going on without a trace",
                 trace->path, strerror(error));
        goto err_remove;
    }
    write_head(trace, rank, world);
    atomic_store(&trace->live, true);
    return trace;

err_remove:
    unlink(trace->path);
err_unmap:
    if (trace->fd >= 0)
        close(trace->fd);
    munmap(trace, sizeof *trace);
    return NULL;
}

static uint8_t *
put_varint(uint8_t *to, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        *to++ = (uint8_t)(value | 0x80);
    *to++ = (uint8_t)value;
    return to;
}

/* Writes the record at `at`; there is room, and the room is zero. */
static void
append(struct dcp_trace *trace, enum dcp_trace_kind kind,
       const uint64_t *fields, unsigned count, const void *payload,
       size_t bytes)
{
    uint8_t *from = trace->window + (trace->at - trace->base);
    uint8_t *to = from + sizeof(struct dcp_trace_record);
    struct dcp_trace_record *record = (struct dcp_trace_record *)from;

    for (unsigned i = 0; i < count; i++)
        to = put_varint(to, fields[i]);
    if (bytes)
        memcpy(to, payload, bytes);
    uint32_t total = (uint32_t)(to + bytes - from);
    record->time_ns = dcp_now_ns();
    record->kind = (uint16_t)kind;
    record->count = (uint16_t)count;
    record->payload = (uint32_t)bytes;
    record->check = dcp_trace_check(&record->time_ns, total - 8);
    __atomic_store_n(&record->bytes, total, __ATOMIC_RELEASE);
    trace->at += (total + 7u) & ~7u;
}

void
dcp_trace_put(struct dcp_trace *trace, enum dcp_trace_kind kind,
              const uint64_t *fields, unsigned count, const void *payload,
              size_t bytes)
{
    int error = 0;

    if (!trace || !atomic_load_explicit(&trace->live, memory_order_relaxed))
        return;
    if (count > DCP_TRACE_FIELDS)
        count = DCP_TRACE_FIELDS;
    if (bytes > DCP_TRACE_PAYLOAD)
        bytes = 0;
    size_t need =
        sizeof(struct dcp_trace_record) + count * VARINT_BYTES + bytes + 8;
    dcp_lock_take(&trace->lock);
    if (atomic_load_explicit(&trace->live, memory_order_relaxed)) {
        if (need > trace->end - trace->at)
            error = grow(trace, need);
        if (error)
            finish(trace);
        else
            append(trace, kind, fields, count, payload, bytes);
    }
    dcp_lock_give(&trace->lock);
    if (error)
        dcp_warn("trace: %s ends here: %s", trace->path, strerror(error));
}

const char *
dcp_trace_path(const struct dcp_trace *trace)
{
    return trace ? trace->path : "";
}

void
dcp_trace_abandon(struct dcp_trace *trace)
{
    if (trace)
        atomic_store(&trace->live, false);
}

void
dcp_trace_close(struct dcp_trace *trace)
{
    if (!trace || !atomic_load(&trace->live))
        return;
    dcp_lock_take(&trace->lock);
    if (atomic_load(&trace->live))
        finish(trace);
    dcp_lock_give(&trace->lock);
}
