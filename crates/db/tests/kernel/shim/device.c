#include "device.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What this file asks of the kernel it asks past the calls that are in between: those of calls.c. */
#define KERNEL(...) syscall(__VA_ARGS__)

#define PAGE 4096
#define PAGES_MAX 65536 /* of a file */
#define INODES_MAX 16384
#define FDS_MAX 65536
#define MAPPINGS_MAX 4096
#define OPENED_MAX 65536

static char root[PATH_MAX], state[PATH_MAX];
static size_t root_len;
static bool is_a_disk;
static int names = -1;

/* What is to fail. */
static struct {
    int class;
    uint64_t index;
    int error;
    uint64_t times;
    int64_t cut_after; /* events after the first failure; below 0: never */
    bool whole;        /* a failed sync of a range loses all dirty pages of the file */
} plan = {.class = -1};

static struct {
    _Atomic uint64_t calls[CLASSES];
    _Atomic uint64_t fired;
} *counts;
static _Atomic int64_t fuse;

static struct inode inodes[INODES_MAX];
static size_t inodes_len;
static struct opened opened_files[OPENED_MAX];
static size_t opened_len;
static struct descriptor descriptors[FDS_MAX];

static struct mapping {
    _Atomic uintptr_t at; /* 0: none; written last */
    size_t len;
    struct opened *opened;
    off_t from;
} mappings[MAPPINGS_MAX];
static _Atomic size_t mappings_len;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static atomic_flag pages = ATOMIC_FLAG_INIT;

void device_lock(void) { pthread_mutex_lock(&mutex); }
void device_unlock(void) { pthread_mutex_unlock(&mutex); }

static void pages_lock(void) {
    while (atomic_flag_test_and_set_explicit(&pages, memory_order_acquire)) sched_yield();
}
static void pages_unlock(void) { atomic_flag_clear_explicit(&pages, memory_order_release); }

static void die(const char *what) {
    fprintf(stderr, "shim: %s: %s\n", what, strerror(errno));
    _exit(70);
}

bool device_has(const char *path) {
    return root_len > 0 && path && strncmp(path, root, root_len) == 0 &&
           (path[root_len] == '/' || path[root_len] == 0);
}

bool device_is_a_disk(void) { return is_a_disk; }

/* The power goes when the fuse has burnt down, between any two events. */
static void burn(void) {
    if (atomic_load(&fuse) >= 0 && atomic_fetch_sub(&fuse, 1) == 0) KERNEL(SYS_exit_group, 77);
}

int device_event(enum class class) {
    if (!counts) return 0;
    uint64_t n = atomic_fetch_add(&counts->calls[class], 1);
    burn();
    if ((int)class != plan.class || n < plan.index) return 0;
    uint64_t fired = atomic_load(&counts->fired);
    do {
        if (fired >= plan.times) return 0;
    } while (!atomic_compare_exchange_weak(&counts->fired, &fired, fired + 1));
    if (fired == 0 && plan.cut_after >= 0) atomic_store(&fuse, plan.cut_after);
    if (fired == 0 && plan.cut_after == 0) burn();
    return plan.error;
}

/* --- names --- */

void device_name(const char *what, const char *a, const char *b, ino_t inode) {
    char line[2 * PATH_MAX + 64];
    int n = snprintf(line, sizeof line, "%s\t%s\t%s\t%lu\n", what, a, b ? b : "", (unsigned long)inode);
    if (write(names, line, (size_t)n) != n) die("note a name");
}

/* --- files --- */

static int open_state(char kind, ino_t number, bool *is_new) {
    char path[PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/%c%lu", state, kind, (unsigned long)number);
    int fd = (int)KERNEL(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
    *is_new = fd < 0;
    if (fd < 0) fd = (int)KERNEL(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) die(path);
    return fd;
}

/* One page of the file as the page cache has it. */
static size_t read_page(int fd, off_t at, char *page) {
    ssize_t n = KERNEL(SYS_pread64, fd, page, PAGE, at);
    if (n >= 0) return (size_t)n;
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int again = (int)KERNEL(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    if (again < 0) die("read a page");
    n = KERNEL(SYS_pread64, again, page, PAGE, at);
    KERNEL(SYS_close, again);
    if (n < 0) die("read a page");
    return (size_t)n;
}

static void store_page(struct inode *inode, off_t at, const char *page, size_t len) {
    if (len > 0 && KERNEL(SYS_pwrite64, inode->image, page, len, at) != (ssize_t)len) die("store a page");
}

static struct inode *find_inode(int fd, bool is_new) {
    static char page[PAGE] __attribute__((aligned(PAGE)));
    struct stat stat;
    if (KERNEL(SYS_fstat, fd, &stat) != 0) die("stat");
    for (size_t n = 0; n < inodes_len; n++)
        if (inodes[n].number == stat.st_ino) return &inodes[n];
    if (inodes_len == INODES_MAX) die("too many files");
    struct inode *inode = &inodes[inodes_len++];
    inode->number = stat.st_ino;
    bool fresh, other;
    inode->image = open_state('i', stat.st_ino, &fresh);
    int dirty = open_state('p', stat.st_ino, &other);
    if (KERNEL(SYS_ftruncate, dirty, PAGES_MAX) != 0) die("dirty pages");
    inode->dirty = (void *)KERNEL(SYS_mmap, NULL, PAGES_MAX, PROT_READ | PROT_WRITE, MAP_SHARED, dirty, 0);
    if (inode->dirty == MAP_FAILED) die("dirty pages");
    KERNEL(SYS_close, dirty);
    /* What was there before the device was watched is on it. */
    for (off_t at = 0; fresh && !is_new && at < stat.st_size; at += PAGE)
        store_page(inode, at, page, read_page(fd, at, page));
    return inode;
}

struct descriptor *device_descriptor(int fd) {
    return fd >= 0 && fd < FDS_MAX && descriptors[fd].path ? &descriptors[fd] : NULL;
}

void device_opened(int fd, const char *path, bool folder, bool is_new) {
    if (fd >= FDS_MAX) die("too many descriptors");
    struct descriptor *d = &descriptors[fd];
    free(d->path);
    *d = (struct descriptor){.path = strdup(path)};
    if (folder) return;
    if (opened_len == OPENED_MAX) die("too many open files");
    d->opened = &opened_files[opened_len++];
    d->opened->inode = find_inode(fd, is_new);
    d->opened->told = d->opened->inode->failures;
    if (is_new) device_name("C", path, NULL, d->opened->inode->number);
}

void device_closed(int fd) {
    if (fd < 0 || fd >= FDS_MAX || !descriptors[fd].path) return;
    free(descriptors[fd].path);
    descriptors[fd] = (struct descriptor){0};
}

void device_written(struct inode *inode, off_t from, off_t to) {
    if (to > (off_t)PAGES_MAX * PAGE) die("a file is too large");
    for (off_t page = from / PAGE; page * PAGE < to; page++) atomic_store(&inode->dirty[page], 1);
}

/* --- mappings --- */

static struct mapping *find_mapping(uintptr_t at) {
    for (size_t n = 0; n < atomic_load(&mappings_len); n++) {
        uintptr_t from = atomic_load(&mappings[n].at);
        if (from && at >= from && at < from + mappings[n].len) return &mappings[n];
    }
    return NULL;
}

struct opened *device_mapping(const char *at, off_t *offset) {
    struct mapping *m = find_mapping((uintptr_t)at);
    if (!m) return NULL;
    *offset = m->from + (off_t)((uintptr_t)at - m->at);
    return m->opened;
}

void device_mapped(char *at, size_t len, struct opened *opened, off_t from) {
    size_t n = 0;
    while (n < atomic_load(&mappings_len) && atomic_load(&mappings[n].at)) n++;
    if (n == MAPPINGS_MAX) die("too many mappings");
    mappings[n].len = len;
    mappings[n].opened = opened;
    mappings[n].from = from;
    atomic_store(&mappings[n].at, (uintptr_t)at);
    if (n == atomic_load(&mappings_len)) atomic_store(&mappings_len, n + 1);
}

void device_unmapped(char *at, size_t len) {
    for (size_t n = 0; n < atomic_load(&mappings_len); n++) {
        uintptr_t from = atomic_load(&mappings[n].at);
        if (from >= (uintptr_t)at && from + mappings[n].len <= (uintptr_t)at + len) atomic_store(&mappings[n].at, 0);
    }
}

static void store_begins(struct mapping *m, uintptr_t at) {
    uintptr_t page = at & ~(uintptr_t)(PAGE - 1);
    off_t n = (m->from + (off_t)(page - m->at)) / PAGE;
    pages_lock();
    atomic_store(&m->opened->inode->dirty[n], 1);
    KERNEL(SYS_mprotect, page, PAGE, PROT_READ | PROT_WRITE);
    pages_unlock();
}

void device_will_store(const char *at, size_t len) {
    for (uintptr_t page = (uintptr_t)at & ~(uintptr_t)(PAGE - 1); page < (uintptr_t)at + len; page += PAGE) {
        struct mapping *m = find_mapping(page);
        if (!m) return;
        store_begins(m, page);
    }
}

static void on_fault(int signal_number, siginfo_t *info, void *context) {
    (void)signal_number;
    (void)context;
    int before = errno;
    struct mapping *m = find_mapping((uintptr_t)info->si_addr);
    if (!m) {
        signal(SIGSEGV, SIG_DFL);
    } else {
        atomic_fetch_add(&counts->calls[TOUCH], 1);
        burn();
        store_begins(m, (uintptr_t)info->si_addr);
    }
    errno = before;
}

/* --- syncing --- */

/* Takes the mark from a page, in the process's mappings of it, too. Whether it was dirty. */
static bool clean(struct inode *inode, off_t page) {
    pages_lock();
    bool was = atomic_exchange(&inode->dirty[page], 0);
    for (size_t n = 0; was && n < atomic_load(&mappings_len); n++) {
        uintptr_t from = atomic_load(&mappings[n].at);
        off_t first = mappings[n].from / PAGE;
        if (from && mappings[n].opened->inode == inode && page >= first &&
            page < first + (off_t)(mappings[n].len / PAGE))
            KERNEL(SYS_mprotect, from + (uintptr_t)(page - first) * PAGE, PAGE, PROT_READ);
    }
    pages_unlock();
    return was;
}

static off_t next_dirty(struct inode *inode, off_t page, off_t end) {
    if (page >= end) return end;
    const char *from = (const char *)inode->dirty;
    const char *found = memchr(from + page, 1, (size_t)(end - page));
    return found ? found - from : end;
}

int device_sync(struct opened *opened, int fd, const char *memory, off_t from, off_t to, int fail) {
    static char page[PAGE] __attribute__((aligned(PAGE)));
    struct inode *inode = opened->inode;
    if (fail == EINTR) return fail;
    if (fail == LIE) return 0;
    if (fail && plan.whole) from = to = 0;
    off_t first = from / PAGE, end = to ? (to + PAGE - 1) / PAGE : PAGES_MAX;
    /* The size before the content: what is behind it was written later, and is dirty still. */
    struct stat stat = {0};
    if (fd >= 0 && KERNEL(SYS_fstat, fd, &stat) != 0) die("stat");
    for (off_t n = next_dirty(inode, first, end); n < end; n = next_dirty(inode, n + 1, end)) {
        if (!clean(inode, n) || fail) continue;
        if (memory) {
            memcpy(page, memory + (n - first) * PAGE, PAGE);
            store_page(inode, n * PAGE, page, PAGE);
        } else {
            store_page(inode, n * PAGE, page, read_page(fd, n * PAGE, page));
        }
    }
    if (fail) {
        inode->failures++;
        inode->error = fail;
    } else if (fd >= 0 && KERNEL(SYS_ftruncate, inode->image, stat.st_size) != 0) {
        die("set the size");
    }
    if (opened->told == inode->failures) return 0;
    opened->told = inode->failures;
    return inode->error;
}

__attribute__((constructor)) static void begin(void) {
    const char *from = getenv("KERNEL_ROOT"), *to = getenv("KERNEL_STATE"), *what = getenv("KERNEL_PLAN");
    if (!from || !to) return;
    snprintf(root, sizeof root, "%s", from);
    snprintf(state, sizeof state, "%s", to);
    root_len = strlen(root);
    is_a_disk = getenv("KERNEL_DISK") != NULL;
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/names", state);
    names = (int)KERNEL(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    snprintf(path, sizeof path, "%s/counts", state);
    int fd = (int)KERNEL(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (names < 0 || fd < 0 || KERNEL(SYS_ftruncate, fd, sizeof *counts) != 0) die(path);
    counts = (void *)KERNEL(SYS_mmap, NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (counts == MAP_FAILED) die("counts");
    KERNEL(SYS_close, fd);
    atomic_store(&fuse, -1);
    int whole = 0;
    if (what && sscanf(what, "%d %lu %d %lu %ld %d", &plan.class, &plan.index, &plan.error, &plan.times,
                       &plan.cut_after, &whole) != 6)
        die(what);
    plan.whole = whole != 0;
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(SIGSEGV, &action, NULL);
    /* A process that hangs is a finding, too. */
    alarm(120);
}
