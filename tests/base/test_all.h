/* SPDX-License-Identifier: MIT */
#ifndef MT_TESTS_BASE_TEST_ALL_H
#define MT_TESTS_BASE_TEST_ALL_H

/* What every test of base includes. */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#endif
