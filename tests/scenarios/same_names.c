/* SPDX-License-Identifier: MIT */
/*
 * Two static functions of one name in two files are two sites with their own files.
 *
 * build: gcc -O1 -g $DIR/lib/same_name.c
 * leak: here count=1 bytes=70 frames=helper,main
 * leak: there count=1 bytes=71 frames=helper,other_file,main
 */
#include <stdlib.h>

#include "scenario.h"

void other_file(void);

static NOINLINE void helper(void)
{
	KEEP(malloc(70)); /* LEAK:here */
}

int main(void)
{
	helper();
	other_file();
	return (int)opaque_zero;
}
