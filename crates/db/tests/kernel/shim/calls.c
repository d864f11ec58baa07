/* The calls that are in between: what the process asks of the kernel about files of the device. */
#include "device.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static long failed(int error) {
    errno = error;
    return -1;
}

/* Where a path leads, from the folder of a descriptor; NULL if that is nowhere on the device. */
static const char *place(int folder, const char *path, char *room) {
    if (path[0] != '/' && folder != AT_FDCWD) {
        struct descriptor *d = device_descriptor(folder);
        if (!d) return NULL;
        snprintf(room, PATH_MAX, "%s/%s", d->path, path);
        return room;
    }
    return device_has(path) ? path : NULL;
}

static ino_t number_of(const char *path) {
    struct stat stat;
    return syscall(SYS_newfstatat, AT_FDCWD, path, &stat, AT_SYMLINK_NOFOLLOW) == 0 ? stat.st_ino : 0;
}

/* --- opening and closing --- */

static int open_at(int folder, const char *path, int flags, mode_t mode) {
    char room[PATH_MAX];
    const char *full = place(folder, path, room);
    if (!full || (flags & O_PATH)) return (int)syscall(SYS_openat, folder, path, flags, mode);
    int error = device_event(flags & O_CREAT ? CREATE : OPEN);
    if (error) return (int)failed(error);
    device_lock();
    bool is_new = (flags & O_CREAT) && number_of(full) == 0;
    int fd = (int)syscall(SYS_openat, folder, path, flags & ~O_TRUNC, mode);
    error = errno;
    if (fd >= 0) {
        struct stat stat;
        syscall(SYS_fstat, fd, &stat);
        bool is_folder = S_ISDIR(stat.st_mode);
        if (is_folder || S_ISREG(stat.st_mode)) device_opened(fd, full, is_folder, is_new);
        if ((flags & O_TRUNC) && stat.st_size > 0) {
            device_written(device_descriptor(fd)->opened->inode, 0, stat.st_size);
            syscall(SYS_ftruncate, fd, 0);
        }
    }
    device_unlock();
    errno = error;
    return fd;
}

static mode_t mode_of(int flags, va_list rest) { return flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, mode_t) : 0; }

#define OPEN_CALL(name, folder, ...)                                                                                   \
    int name(__VA_ARGS__, ...) {                                                                                       \
        va_list rest;                                                                                                  \
        va_start(rest, flags);                                                                                         \
        mode_t mode = mode_of(flags, rest);                                                                            \
        va_end(rest);                                                                                                  \
        return open_at(folder, path, flags, mode);                                                                     \
    }
OPEN_CALL(open, AT_FDCWD, const char *path, int flags)
OPEN_CALL(open64, AT_FDCWD, const char *path, int flags)
OPEN_CALL(openat, folder, int folder, const char *path, int flags)
OPEN_CALL(openat64, folder, int folder, const char *path, int flags)

DIR *opendir(const char *path) {
    int error = device_has(path) ? device_event(OPEN) : 0;
    if (error) {
        errno = error;
        return NULL;
    }
    return NEXT(opendir)(path);
}

int close(int fd) {
    if (device_descriptor(fd)) {
        device_lock();
        device_closed(fd);
        device_unlock();
    }
    return (int)syscall(SYS_close, fd);
}

int statfs(const char *path, struct statfs *answer) {
    int rc = (int)syscall(SYS_statfs, path, answer);
    if (rc == 0 && device_is_a_disk() && device_has(path)) answer->f_type = 0xEF53;
    return rc;
}

int fstatfs(int fd, struct statfs *answer) {
    int rc = (int)syscall(SYS_fstatfs, fd, answer);
    if (rc == 0 && device_is_a_disk() && device_descriptor(fd)) answer->f_type = 0xEF53;
    return rc;
}

/* --- content --- */

static struct inode *file(int fd) {
    struct descriptor *d = device_descriptor(fd);
    return d && d->opened ? d->opened->inode : NULL;
}

static ssize_t write_at(int fd, const void *bytes, size_t len, off_t at) {
    struct inode *inode = file(fd);
    if (!inode) return syscall(SYS_pwrite64, fd, bytes, len, at);
    int error = device_event(WRITE);
    if (error == ENOSPC && len > 1 && at % 3 == 0) {
        /* A part still fits. */
        len /= 2;
        error = 0;
    }
    if (error) return failed(error);
    /* Marked before, so that a cut between leaves no clean page with new content, and after, since a sync may have
     * come between. */
    device_written(inode, at, at + (off_t)len);
    ssize_t n = syscall(SYS_pwrite64, fd, bytes, len, at);
    device_written(inode, at, at + (off_t)len);
    return n;
}

ssize_t pwrite(int fd, const void *bytes, size_t len, off_t at) { return write_at(fd, bytes, len, at); }
ssize_t pwrite64(int fd, const void *bytes, size_t len, off_t at) { return write_at(fd, bytes, len, at); }

ssize_t write(int fd, const void *bytes, size_t len) {
    if (!file(fd)) return syscall(SYS_write, fd, bytes, len);
    off_t at = syscall(SYS_lseek, fd, 0, SEEK_CUR);
    ssize_t n = write_at(fd, bytes, len, at);
    if (n > 0) syscall(SYS_lseek, fd, at + n, SEEK_SET);
    return n;
}

/* One piece at a time: to write a part is allowed. */
ssize_t writev(int fd, const struct iovec *pieces, int n) {
    if (!file(fd)) return syscall(SYS_writev, fd, pieces, n);
    for (int i = 0; i < n; i++)
        if (pieces[i].iov_len > 0) return write(fd, pieces[i].iov_base, pieces[i].iov_len);
    return 0;
}

static ssize_t pwritev_at(int fd, const struct iovec *pieces, int n, off_t at) {
    for (int i = 0; i < n; i++)
        if (pieces[i].iov_len > 0) return write_at(fd, pieces[i].iov_base, pieces[i].iov_len, at);
    return 0;
}
ssize_t pwritev(int fd, const struct iovec *p, int n, off_t at) { return pwritev_at(fd, p, n, at); }
ssize_t pwritev64(int fd, const struct iovec *p, int n, off_t at) { return pwritev_at(fd, p, n, at); }

static ssize_t read_at(int fd, void *bytes, size_t len, off_t at) {
    int error = file(fd) ? device_event(READ) : 0;
    if (error) return failed(error);
    device_will_store(bytes, len);
    return syscall(SYS_pread64, fd, bytes, len, at);
}
ssize_t pread(int fd, void *bytes, size_t len, off_t at) { return read_at(fd, bytes, len, at); }
ssize_t pread64(int fd, void *bytes, size_t len, off_t at) { return read_at(fd, bytes, len, at); }

ssize_t read(int fd, void *bytes, size_t len) {
    int error = file(fd) ? device_event(READ) : 0;
    if (error) return failed(error);
    device_will_store(bytes, len);
    return syscall(SYS_read, fd, bytes, len);
}

static int allocate(int fd, int mode, off_t at, off_t len) {
    struct inode *inode = file(fd);
    int error = inode ? device_event(ALLOCATE) : 0;
    if (error) return (int)failed(error);
    int rc = (int)syscall(SYS_fallocate, fd, mode, at, len);
    if (inode && rc == 0 && mode & ~FALLOC_FL_KEEP_SIZE) device_written(inode, at, at + len);
    return rc;
}
int fallocate(int fd, int mode, off_t at, off_t len) { return allocate(fd, mode, at, len); }
int fallocate64(int fd, int mode, off_t at, off_t len) { return allocate(fd, mode, at, len); }
int posix_fallocate(int fd, off_t at, off_t len) { return allocate(fd, 0, at, len) == 0 ? 0 : errno; }
int posix_fallocate64(int fd, off_t at, off_t len) { return posix_fallocate(fd, at, len); }

static int truncate_to(int fd, off_t len) {
    struct inode *inode = file(fd);
    int error = inode ? device_event(TRUNCATE) : 0;
    if (error) return (int)failed(error);
    struct stat stat;
    if (inode && syscall(SYS_fstat, fd, &stat) == 0 && stat.st_size > len) device_written(inode, len, stat.st_size);
    return (int)syscall(SYS_ftruncate, fd, len);
}
int ftruncate(int fd, off_t len) { return truncate_to(fd, len); }
int ftruncate64(int fd, off_t len) { return truncate_to(fd, len); }

/* --- syncing --- */

/* Whether it is the region of persistent memory, which is synced as a whole only when it grows. */
static bool is_region(const char *path) {
    size_t len = strlen(path);
    return len > 3 && strcmp(path + len - 3, ".pm") == 0;
}

static int sync_file(int fd, long number) {
    struct descriptor *d = device_descriptor(fd);
    if (!d) return (int)syscall(number, fd);
    enum class class = !d->opened ? SYNC_FOLDER : is_region(d->path) ? SYNC_REGION : SYNC;
    int error = device_event(class);
    device_lock();
    if (d->opened) error = device_sync(d->opened, fd, NULL, 0, 0, error);
    else if (!error) device_name("S", d->path, NULL, 0);
    device_unlock();
    return error && error != LIE ? (int)failed(error) : 0;
}
int fsync(int fd) { return sync_file(fd, SYS_fsync); }
int fdatasync(int fd) { return sync_file(fd, SYS_fdatasync); }

int msync(void *at, size_t len, int flags) {
    off_t offset = 0;
    struct opened *opened = device_mapping(at, &offset);
    if (!opened) return (int)syscall(SYS_msync, at, len, flags);
    int error = device_event(MSYNC);
    device_lock();
    /* A range that two mappings of one file share is one range of that file. */
    error = device_sync(opened, -1, at, offset, offset + (off_t)len, error);
    device_unlock();
    return error ? (int)failed(error) : 0;
}

/* --- mappings --- */

static void *map(void *at, size_t len, int prot, int flags, int fd, off_t from) {
    struct descriptor *d = flags & MAP_ANONYMOUS ? NULL : device_descriptor(fd);
    int kind = flags & MAP_TYPE;
    bool shared = d && d->opened && prot & PROT_WRITE && (kind == MAP_SHARED || kind == MAP_SHARED_VALIDATE);
    int error = d ? device_event(MAP) : 0;
    if (error) {
        errno = error;
        return MAP_FAILED;
    }
    device_lock();
    void *got = (void *)syscall(SYS_mmap, at, len, shared ? prot & ~PROT_WRITE : prot, flags, fd, from);
    error = errno;
    if (got != MAP_FAILED && shared) device_mapped(got, len, d->opened, from);
    device_unlock();
    errno = error;
    return got;
}
void *mmap(void *at, size_t len, int prot, int flags, int fd, off_t from) {
    return map(at, len, prot, flags, fd, from);
}
void *mmap64(void *at, size_t len, int prot, int flags, int fd, off_t from) {
    return map(at, len, prot, flags, fd, from);
}

int munmap(void *at, size_t len) {
    device_lock();
    device_unmapped(at, len);
    int rc = (int)syscall(SYS_munmap, at, len);
    int error = errno;
    device_unlock();
    errno = error;
    return rc;
}

/* --- names --- */

/* A call that changes names: whether it fails, what it does, and the note if it did. */
#define NAMES_CALL(class, full, call, ...)                                                                             \
    do {                                                                                                               \
        int error = (full) ? device_event(class) : 0;                                                                  \
        if (error) return (int)failed(error);                                                                          \
        if (full) device_lock();                                                                                       \
        int rc = (int)(call);                                                                                          \
        error = errno;                                                                                                 \
        if (full) {                                                                                                    \
            if (rc == 0) device_name(__VA_ARGS__);                                                                     \
            device_unlock();                                                                                           \
        }                                                                                                              \
        errno = error;                                                                                                 \
        return rc;                                                                                                     \
    } while (0)

static int rename_at(int folder, const char *from, int to_folder, const char *to, unsigned flags) {
    char room[PATH_MAX], to_room[PATH_MAX];
    const char *a = place(folder, from, room), *b = place(to_folder, to, to_room);
    bool both = a && b;
    NAMES_CALL(RENAME, both, syscall(SYS_renameat2, folder, from, to_folder, to, flags), "R", a, b, number_of(b));
}
int rename(const char *from, const char *to) { return rename_at(AT_FDCWD, from, AT_FDCWD, to, 0); }
int renameat(int f, const char *from, int t, const char *to) { return rename_at(f, from, t, to, 0); }
int renameat2(int f, const char *from, int t, const char *to, unsigned x) { return rename_at(f, from, t, to, x); }

static int unlink_at(int folder, const char *path, int flags) {
    char room[PATH_MAX];
    const char *full = place(folder, path, room);
    NAMES_CALL(UNLINK, full, syscall(SYS_unlinkat, folder, path, flags), flags & AT_REMOVEDIR ? "D" : "U", full, NULL,
               0);
}
int unlink(const char *path) { return unlink_at(AT_FDCWD, path, 0); }
int unlinkat(int folder, const char *path, int flags) { return unlink_at(folder, path, flags); }
int rmdir(const char *path) { return unlink_at(AT_FDCWD, path, AT_REMOVEDIR); }

static int mkdir_at(int folder, const char *path, mode_t mode) {
    char room[PATH_MAX];
    const char *full = place(folder, path, room);
    NAMES_CALL(MKDIR, full, syscall(SYS_mkdirat, folder, path, mode), "M", full, NULL, 0);
}
int mkdir(const char *path, mode_t mode) { return mkdir_at(AT_FDCWD, path, mode); }
int mkdirat(int folder, const char *path, mode_t mode) { return mkdir_at(folder, path, mode); }

static int link_at(int folder, const char *from, int to_folder, const char *to, int flags) {
    char room[PATH_MAX], to_room[PATH_MAX];
    const char *a = place(folder, from, room), *b = place(to_folder, to, to_room);
    bool both = a && b;
    NAMES_CALL(LINK, both, syscall(SYS_linkat, folder, from, to_folder, to, flags), "L", a, b, number_of(b));
}
int link(const char *from, const char *to) { return link_at(AT_FDCWD, from, AT_FDCWD, to, 0); }
int linkat(int f, const char *from, int t, const char *to, int flags) { return link_at(f, from, t, to, flags); }
