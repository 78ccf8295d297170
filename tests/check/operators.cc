// SPDX-License-Identifier: MIT
// All ways to make and delete that go together: nothing is to be reported.
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

struct alignas(64) wide {
	char bytes[100];
	~wide()
	{
	}
};

static void *volatile sink;

int main()
{
	for (std::size_t size : {0u, 1u, 24u, 4096u, 300000u}) {
		::operator delete(sink = ::operator new(size));
		::operator delete(sink = ::operator new(size), size);
		::operator delete[](sink = ::operator new[](size));
		::operator delete[](sink = ::operator new[](size), size);
		::operator delete(sink = ::operator new(size, std::nothrow), std::nothrow);
		::operator delete[](sink = ::operator new[](size, std::nothrow), std::nothrow);
		const auto align = std::align_val_t(128);
		::operator delete(sink = ::operator new(size, align), align);
		::operator delete[](sink = ::operator new[](size, align), size, align);
		std::free(sink = std::malloc(size));
	}
	delete new wide;
	delete[] new wide[3];
	delete[] new std::string[5];
	std::vector<std::vector<int>> v(10, std::vector<int>(100));
	sink = v.data();
	try {
		sink = ::operator new[](static_cast<std::size_t>(1) << 60);
		return 1;
	} catch (const std::bad_alloc &) {
	}
	std::free(sink = std::malloc(static_cast<std::size_t>(1) << 10)); // no mark is left behind
	return 0;
}
