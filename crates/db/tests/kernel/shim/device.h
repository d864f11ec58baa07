/* A device below the files of one folder: what is on it, apart from what the page cache shows.
 *
 * The real files are the page cache. For each of them there is, in a state folder that outlives the
 * process, the *image* (what the device has) and a byte for each page (whether it is dirty):
 *
 *   i<inode>   the image; its size is the size that the device knows
 *   p<inode>   one byte for each page of 4 KiB: 1 is dirty
 *   names      what happened to names, a line each, in order; a folder that was synced, too
 *   counts     how often each call was made
 *
 * Rules, which are Linux's:
 * 1. A write, through a call or through a mapping, makes pages dirty.
 * 2. A sync that succeeds copies the dirty pages of its range into the image, and the size, and they are clean.
 * 3. A sync that fails leaves the pages clean, and the image as it was. Who wants them on the device writes them
 *    again. It is told once to each open file that was open by then; an open file that comes later is told nothing.
 * 4. A sync that fails with EINTR has done nothing.
 * 5. Names are on the device when the folder was synced, and either way before.
 *
 * A power cut is made from these files by the parent process, after this one has ended.
 *
 * Stores into mappings are seen by write protection: a page that is clean is protected, the fault of the first store
 * marks it dirty. The lock of pages (`pages_lock`) makes "mark and unprotect" and "clean and protect" whole; nobody
 * touches mapped memory under it. All else is under one mutex (`device_lock`), which no signal handler takes.
 */
#ifndef DEVICE_H
#define DEVICE_H

#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum class {
    SYNC, SYNC_REGION, MSYNC, SYNC_FOLDER, WRITE, ALLOCATE, TRUNCATE, OPEN, CREATE, RENAME, UNLINK, MKDIR, LINK, MAP,
    READ, TOUCH, CLASSES
};

/* An errno that is none: the call answers that it has done what it has not. */
#define LIE 1000

/* A file, by its inode number: a memory file system uses none twice. */
struct inode {
    ino_t number;
    int image;
    _Atomic unsigned char *dirty;
    /* How often a write-back failed, and with what. */
    uint64_t failures;
    int error;
};

/* An open file: what it was told of. */
struct opened {
    struct inode *inode;
    uint64_t told;
};

/* What a descriptor stands for; no path: nothing of ours. */
struct descriptor {
    char *path;
    struct opened *opened;
};

void device_lock(void);
void device_unlock(void);

/* Whether the path is below the folder that lies on the device. */
bool device_has(const char *path);
/* The kind of file system that it is to be taken for. */
bool device_is_a_disk(void);

/* Counts a call. The errno that it is to fail with, or 0. */
int device_event(enum class class);

/* What the descriptor stands for, or NULL. */
struct descriptor *device_descriptor(int fd);
/* Takes note of a descriptor, of a file that is new or not, or of a folder. */
void device_opened(int fd, const char *path, bool folder, bool is_new);
void device_closed(int fd);

/* Notes what happened to a name. */
void device_name(const char *what, const char *a, const char *b, ino_t inode);

void device_written(struct inode *inode, off_t from, off_t to);
/* Syncs pages, all of them where `to` is 0; `fail` is what the plan says. Returns an errno, or 0. */
int device_sync(struct opened *opened, int fd, const char *memory, off_t from, off_t to, int fail);

void device_mapped(char *at, size_t len, struct opened *opened, off_t from);
void device_unmapped(char *at, size_t len);
/* The mapping over an address; how far it lies in its file. */
struct opened *device_mapping(const char *at, off_t *offset);
/* Whoever writes there is not the process: as if it had. */
void device_will_store(const char *at, size_t len);

#endif
