"""The files of a program; ``@name@`` stands for what is the program's own."""

HEADER = """\
/* @name@: a program written by rushlight.export_c.

   cc -std=c99 -O3 -march=native -ffp-contract=off @name@.c @name@_main.c -lm

   All arrays are C-contiguous. The arrays of a run must not overlap, nor may two threads run one
   state at the same time. Functions return 0, or a code that @name@_message explains. */

#ifndef @NAME@_H
#define @NAME@_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* bytes of memory that a state needs, aligned as malloc does */
#define @NAME@_MEMORY @memory@
/* the first bytes of it, which @name@_save writes and @name@_load reads */
#define @NAME@_STATE @state@

@arguments@

typedef struct {
    int code;
    int64_t position; /* the index or label that was out of range */
} @name@_fault;

typedef struct {
    unsigned char *memory;
    @name@_fault fault;
} @name@_state;

@pieces@

enum {
    @NAME@_NO_FILE = 1,     /* a file could not be opened */
    @NAME@_BAD_FILE = 2,    /* a file is damaged, or not one of this program's */
    @NAME@_NOT_WRITTEN = 3, /* a file could not be written */
    @NAME@_NO_MEMORY = 4    /* a loop has taken too many steps to remember */
};

/* Begins with the state of the file `weights`; NULL stands for that of the export, if the program
   has it in arrays. `memory` has @NAME@_MEMORY bytes and is used as long as the state is. */
int @name@_init(@name@_state *self, void *memory, const char *weights);

/* Runs the program once. */
int @name@_run(@signature@);

/* Writes the state to a file, or reads it from there. It is written to <path>.new, which is then
   renamed: a disk that is full leaves the old file as it is. */
int @name@_save(const @name@_state *self, const char *path);
int @name@_load(@name@_state *self, const char *path);

/* What a code means; <position> stands for self->fault.position. */
const char *@name@_message(int code);

#ifdef __cplusplus
}
#endif

#endif
"""

SOURCE = """\
/* @name@: written by rushlight.export_c; see @name@.h. */

#include "@name@.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef @name@_fault fault;

#define AT(offset) ((void *)(self->memory + (offset)))
#define ROW(begin, number, size) ((void *)((unsigned char *)(begin) + (number) * (size)))

@arrays@

@functions@

int @name@_run(@signature@) {
    self->fault.code = 0;
    self->fault.position = 0;
@unused@@body@
    return 0;
}

static uint64_t checksum(const unsigned char *memory, uint64_t size) {
    uint64_t low = 0, high = 0, word;
    for (uint64_t i = 0; i < size / 8; i++) {
        memcpy(&word, memory + 8 * i, 8);
        low += word, high += word * (i + 1);
    }
    return low ^ (high << 1 | high >> 63);
}

int @name@_load(@name@_state *self, const char *path) {
    struct {
        uint32_t magic, zero;
        uint64_t fingerprint, size;
    } head = {0, 0, 0, 0};
    uint64_t low = 0, high = 0, word = 0;
    FILE *file = fopen(path, "rb");
    int fits;
    if (!file) return @NAME@_NO_FILE;
    fits = fread(&head, sizeof head, 1, file) == 1 && head.magic == @magic@ &&
           head.fingerprint == @fingerprint@ && head.size == @NAME@_STATE;
    /* All of the file is looked at before the state changes. */
    for (uint64_t i = 0; fits && i != @NAME@_STATE / 8; i++) {
        fits = fread(&word, 8, 1, file) == 1;
        low += word, high += word * (i + 1);
    }
    fits = fits && fread(&word, 8, 1, file) == 1 && fgetc(file) == EOF &&
           word == (low ^ (high << 1 | high >> 63)) && fseek(file, sizeof head, SEEK_SET) == 0;
    if (fits && @NAME@_STATE) fits = fread(self->memory, 1, @NAME@_STATE, file) == @NAME@_STATE;
    fclose(file);
    return fits ? 0 : @NAME@_BAD_FILE;
}

int @name@_save(const @name@_state *self, const char *path) {
    const struct {
        uint32_t magic, zero;
        uint64_t fingerprint, size;
    } head = {@magic@, 0, @fingerprint@, @NAME@_STATE};
    const uint64_t sum = checksum(self->memory, @NAME@_STATE);
    const size_t length = strlen(path);
    char beside[FILENAME_MAX + 5];
    FILE *file;
    int done, gone = 0;
    if (length > FILENAME_MAX) return @NAME@_NO_FILE;
    memcpy(beside, path, length);
    memcpy(beside + length, ".new", 5);
    file = fopen(beside, "wb");
    if (!file) return @NAME@_NO_FILE;
    done = fwrite(&head, sizeof head, 1, file) == 1;
    if (@NAME@_STATE) done = done && fwrite(self->memory, 1, @NAME@_STATE, file) == @NAME@_STATE;
    done = done && fwrite(&sum, sizeof sum, 1, file) == 1;
    done = fclose(file) == 0 && done;
    if (done && rename(beside, path) != 0) {
        /* C leaves open whether a file can be renamed to one that is there. POSIX can; Windows
           cannot, and there the old file, now that the new one is complete, is removed first. */
        file = fopen(path, "r+b");
        gone = file && fclose(file) == 0 && remove(path) == 0;
        done = gone && rename(beside, path) == 0;
    }
    if (!done && !gone) remove(beside);
    return done ? 0 : @NAME@_NOT_WRITTEN;
}

int @name@_init(@name@_state *self, void *memory, const char *weights) {
    self->memory = memory;
    self->fault.code = 0;
    self->fault.position = 0;
    if (@NAME@_STATE) memset(memory, 0, @NAME@_STATE);
    if (weights) return @name@_load(self, weights);
@start@
    return 0;
}

const char *@name@_message(int code) {
    static const char *const messages[] = {
@messages@
    };
    if (code == 0) return "no error";
    if (code == @NAME@_NO_FILE) return "the file could not be opened";
    if (code == @NAME@_BAD_FILE) return "the file is damaged, or not one of this program's";
    if (code == @NAME@_NOT_WRITTEN) return "the file could not be written";
    if (code == @NAME@_NO_MEMORY) return "there is no memory for all steps of a loop";
    return code >= @first@ && code < @first@ + @count@ ? messages[code - @first@] : "unknown";
}
"""

EXAMPLE = """\
/* How @name@ is used:

   cc -std=c99 -O3 -march=native -ffp-contract=off @name@.c @name@_main.c -lm -o @name@ */

#include "@name@.h"

#include <stdio.h>
#include <stdlib.h>

@data@

int main(void) {
    @name@_state state;
    void *memory = malloc(@NAME@_MEMORY + 1);
    int code = memory ? @name@_init(&state, memory, @path@) : 1;
    if (!code) code = @name@_run(@names@);
    if (code) {
        fprintf(stderr, "%s\\n", @name@_message(code));
        free(memory);
        return 1;
    }
@shown@
    free(memory);
    return 0;
}
"""
