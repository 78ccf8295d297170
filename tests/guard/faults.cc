// SPDX-License-Identifier: MIT
// As faults.c, with new and delete.
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#define APART __attribute__((noinline, noclone))

static volatile int sink;
static int *volatile number;

APART static void use_after_delete()
{
	number = new int(5); // MARK use_after_delete alloc
	delete number;       // MARK use_after_delete free
	sink = *number;      // MARK use_after_delete use
}

APART static void double_delete()
{
	number = new int[4]; // MARK double_delete alloc
	delete[] number;     // MARK double_delete free
	delete[] number;     // MARK double_delete use
}

APART static void overflow_of_array()
{
	number = new int[8]; // MARK overflow_of_array alloc
	number[8] = 1;       // MARK overflow_of_array use
	delete[] number;
}

APART static void overflow_of_vector()
{
	std::vector<long> v(16);
	long *volatile p = v.data();
	sink = static_cast<int>(p[16]); // MARK overflow_of_vector use
}

APART static void no_error()
{
	std::vector<std::string> v;
	for (int i = 0; i < 500; i++)
		v.push_back(std::string(static_cast<size_t>(i), 'x'));
	for (int i = 0; i < 500; i++)
		if (v[static_cast<size_t>(i)] != std::string(static_cast<size_t>(i), 'x'))
			std::puts("contents are lost");
	struct alignas(64) wide {
		char c[64];
	};
	auto w = std::make_unique<wide>();
	if (reinterpret_cast<size_t>(w.get()) % 64)
		std::puts("not aligned");
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)();
	} cases[] = {
		{"use_after_delete", use_after_delete},
		{"double_delete", double_delete},
		{"overflow_of_array", overflow_of_array},
		{"overflow_of_vector", overflow_of_vector},
		{"no_error", no_error},
	};
	std::setvbuf(stdout, nullptr, _IONBF, 0);
	for (const auto &c : cases)
		if (argc > 1 && !std::strcmp(argv[1], c.name)) {
			c.run();
			std::puts("end");
			return 0;
		}
	return 2;
}
