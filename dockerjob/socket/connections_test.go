package socket_test

import (
	"testing"

	"github.com/lanyard-k8s/lanyard/dockerjob/socket"
)

// TestTwoUsersDoNotTakeAllPlaces: two who knock without end have as many places as one user may, and no more than an eighth short of
// all; others are let in meanwhile, and those two again once they leave.
func TestTwoUsersDoNotTakeAllPlaces(t *testing.T) {
	t.Parallel()
	const each, all = 1024, 2048
	p := socket.NewPlaces(socket.Bounds{PerUser: each, Total: all})
	has, told := map[uint32]int{}, map[uint32]int{}
	var leave []func()
	for range 3 * each {
		for _, uid := range []uint32{1, 2} {
			place, says, goes := p.Enter(uid)
			leave = append(leave, goes)
			if place {
				has[uid]++
			}
			if says {
				told[uid]++
			}
		}
	}
	if has[1] > each || has[2] > each || has[1]+has[2] != all-all/8 {
		t.Errorf("they have %d and %d places", has[1], has[2])
	}
	if told[1] != 8 || told[2] != 8 {
		t.Errorf("they are told %d and %d times at once", told[1], told[2])
	}
	for uid := uint32(1001); uid < 1001+all/8/4; uid++ {
		for n := range 4 {
			place, _, goes := p.Enter(uid)
			leave = append(leave, goes)
			if !place {
				t.Fatalf("user %d has no place for connection %d", uid, n)
			}
		}
	}
	if place, says, _ := p.Enter(3001); place || !says {
		t.Errorf("beyond all places: place %v, told %v", place, says)
	}
	for _, goes := range leave {
		goes()
	}
	for n := range each + 1 {
		if place, _, _ := p.Enter(1); place != (n < each) {
			t.Fatalf("afterwards connection %d has a place: %v", n, place)
		}
	}
}

// TestFewPlaces: with the least that can be configured a second user is let in still.
func TestFewPlaces(t *testing.T) {
	t.Parallel()
	p := socket.NewPlaces(socket.Bounds{PerUser: 8, Total: 8})
	for n := range 8 {
		if place, _, _ := p.Enter(1); place != (n < 7) {
			t.Errorf("connection %d has a place: %v", n, place)
		}
	}
	if place, _, _ := p.Enter(2); !place {
		t.Error("another user has no place")
	}
}
