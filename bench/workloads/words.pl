# SPDX-License-Identifier: MIT
# usage: words.pl FILE - hashes of lists of hashes, splitting, substitution, sorting.
use strict;
use warnings;

my (%records, %count);
my $length = 0;
open my $file, '<', $ARGV[0] or die "$ARGV[0]: $!";
while (my $line = <$file>) {
	chomp $line;
	my ($key, $value) = $line =~ /key(\d+)=(\d+)$/;
	my @words = split / /, $line;
	push @{$records{$key}}, {line => $line, value => $value, words => \@words};
	$count{$_}++ for @words;
	(my $marked = $line) =~ s/([aeiou])/<$1>/g;
	$length += length $marked;
}
my @sorted = sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count;
my $total = 0;
for my $key (sort keys %records) {
	$total += @{$_->{words}} for sort { $a->{value} <=> $b->{value} } @{$records{$key}};
}
print scalar(@sorted), " $length $total $sorted[0]\n";
