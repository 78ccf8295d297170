/* SPDX-License-Identifier: MIT */
/* The same in C++: that the headers can be read there. */
#include "profiles.c"
