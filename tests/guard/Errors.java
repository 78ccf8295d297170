// SPDX-License-Identifier: MIT
/** The virtual machine turns SIGSEGV into exceptions, in interpreted and compiled code and in threads. */
public class Errors {
	static Object nothing;

	static int count() {
		int n = 0;
		for (int i = 0; i < 30000; i++) {
			try {
				nothing.hashCode();
			} catch (NullPointerException e) {
				n++;
			}
		}
		return n;
	}

	static int deep(int n) {
		return deep(n + 1) + 1;
	}

	public static void main(String[] arguments) throws Exception {
		Thread thread = new Thread(() -> System.out.println(count()));
		thread.start();
		thread.join();
		System.out.println(count());
		try {
			deep(0);
		} catch (StackOverflowError e) {
			System.out.println("too deep");
		}
		System.gc();
	}
}
