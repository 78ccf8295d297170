// SPDX-License-Identifier: MIT
// operator new and delete: what is left alive, and an exception that passes the hooks.
#include <cstdlib>
#include <new>
#include <vector>

static void *volatile sink;

int main()
{
	for (int i = 0; i < 4; i++)
		sink = ::operator new(1013);
	for (int i = 0; i < 2; i++)
		sink = new char[1014];
	sink = ::operator new(1015, std::nothrow);
	delete new int(3);
	std::vector<int> v(1000);
	sink = v.data();
	try {
		sink = ::operator new(static_cast<std::size_t>(1) << 60);
		return 1;
	} catch (const std::bad_alloc &) {
	}
	return 0;
}
